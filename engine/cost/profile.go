// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package cost // import "github.com/otelcol-sglang/otelcol-sglang/engine/cost"

import "cmp"

// Profile is a model on a GPU. Sizes are the public ones of the models; rates are
// the GPU's data sheet, with the share of them that kernels reach.
type Profile struct {
	Name string
	// Params are all weights, ActiveParams those that one token passes.
	Params, ActiveParams float64
	WeightBytes          float64 // per weight
	Layers, Hidden       int
	KVHeads, HeadDim     int
	// FullLayers attend to everything; 0 is all. WindowLayers attend to the last
	// Window tokens; what is left of Layers keeps a state instead of KV, of
	// StateBytes in all.
	FullLayers, WindowLayers, Window int
	StateBytes                       float64
	// Experts per MoE layer and those that a token chooses; 0 for dense models.
	// DenseShare of the weights is in no expert.
	Experts, TopK int
	DenseShare    float64
	// Embedding models only prefill.
	Embedding bool

	GPUMemory        float64 // bytes
	Flops            float64 // per second, dense
	Efficiency       float64 // share of Flops that a large pass reaches
	MemBandwidth     float64 // bytes per second
	LinkBandwidth    float64 // bytes per second, GPU to GPU
	AllReduceSeconds float64 // latency of one all-reduce
	// LayerLaunchSeconds of CPU per layer without a graph; GraphSeconds with one.
	LayerLaunchSeconds, GraphSeconds float64
	// DraftSeconds is one draft step of speculation.
	DraftSeconds float64
}

// KVBytesPerToken over the layers of full attention: keys and values in 16 bits.
func (p *Profile) KVBytesPerToken() float64 { return p.kvBytes(p.fullLayers()) }

// WindowBytesPerToken is that of the layers with a sliding window.
func (p *Profile) WindowBytesPerToken() float64 { return p.kvBytes(p.WindowLayers) }

func (p *Profile) kvBytes(layers int) float64 { return float64(2 * layers * p.KVHeads * p.HeadDim * 2) }

func (p *Profile) fullLayers() int { return cmp.Or(p.FullLayers, p.Layers) }

func onH100(p Profile) Profile {
	p.GPUMemory, p.Flops, p.MemBandwidth = 80e9, 989e12, 3.35e12
	p.Efficiency = 0.55
	p.LinkBandwidth, p.AllReduceSeconds = 450e9, 7e-6
	p.LayerLaunchSeconds, p.GraphSeconds = 60e-6, 300e-6
	p.DraftSeconds = 400e-6
	return p
}

var profiles = []Profile{
	onH100(Profile{
		Name: "llama-8b-h100", Params: 8.03e9, ActiveParams: 7.5e9, WeightBytes: 2,
		Layers: 32, Hidden: 4096, KVHeads: 8, HeadDim: 128,
	}),
	onH100(Profile{
		Name: "llama-70b-h100", Params: 70.6e9, ActiveParams: 69.5e9, WeightBytes: 1, // FP8
		Layers: 80, Hidden: 8192, KVHeads: 8, HeadDim: 128,
	}),
	onH100(Profile{
		Name: "qwen3-30b-a3b-h100", Params: 30.5e9, ActiveParams: 3.3e9, WeightBytes: 2,
		Layers: 48, Hidden: 2048, KVHeads: 4, HeadDim: 128, Experts: 128, TopK: 8, DenseShare: 0.05,
	}),
	onH100(Profile{ // MXFP4 with the scales; each second layer has a sliding window
		Name: "gpt-oss-20b-h100", Params: 20.9e9, ActiveParams: 3.6e9, WeightBytes: 0.61,
		Layers: 24, Hidden: 2880, KVHeads: 8, HeadDim: 64, Experts: 32, TopK: 4, DenseShare: 0.09,
		FullLayers: 12, WindowLayers: 12, Window: 128,
	}),
	// FP8; three of four layers are Gated DeltaNet. Of each a request has 32 x 128 x 128
	// numbers of 32 bits and a convolution's last 3 inputs of 8192.
	onH100(Profile{
		Name: "qwen3-next-80b-a3b-h100", Params: 81.3e9, ActiveParams: 3.9e9, WeightBytes: 1,
		Layers: 48, Hidden: 2048, KVHeads: 2, HeadDim: 256, Experts: 512, TopK: 10, DenseShare: 0.03,
		FullLayers: 12, StateBytes: 36 * (32*128*128*4 + 3*8192*2),
	}),
	onH100(Profile{
		Name: "bge-m3-h100", Params: 0.57e9, ActiveParams: 0.3e9, WeightBytes: 2,
		Layers: 24, Hidden: 1024, KVHeads: 16, HeadDim: 64, Embedding: true,
	}),
}

// Names are the profiles' names.
func Names() []string {
	names := make([]string, len(profiles))
	for i := range profiles {
		names[i] = profiles[i].Name
	}
	return names
}
