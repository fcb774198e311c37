// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package page // import "github.com/otelcol-sglang/otelcol-sglang/engine/page"

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/otelcol-sglang/otelcol-sglang/engine/args"
	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// Rules of --prompt-tokens-buckets and --generation-tokens-buckets.
const (
	ruleDefault = "default"
	ruleTSE     = "tse"
	ruleCustom  = "custom"
	// maxBounds is the largest number of bounds that a rule may ask for.
	maxBounds = 1000
)

// perStageStart and the others are the exponential bounds of the stages: the
// catalogue's are cut to ten digits.
const (
	perStageStart  = 0.001
	perStageFactor = 1.62
	perStageCount  = 30
)

// bucketsOf are the bounds that depend on settings or need more digits than the
// catalogue has.
func bucketsOf(a *args.Args) (map[*sglang.Family][]float64, error) {
	prompt, promptErr := GenerateBuckets(a.PromptTokensBuckets, sglang.FamilyPromptTokensHistogram.Family().Buckets)
	generation, generationErr := GenerateBuckets(a.GenerationTokensBuckets, sglang.FamilyGenerationTokensHistogram.Family().Buckets)
	if err := errors.Join(
		wrapKey("prompt_tokens_buckets", promptErr), wrapKey("generation_tokens_buckets", generationErr),
	); err != nil {
		return nil, err
	}
	m := map[*sglang.Family][]float64{
		sglang.FamilyPromptTokensHistogram.Family():         prompt,
		sglang.FamilyUncachedPromptTokensHistogram.Family(): prompt,
		sglang.FamilyGenerationTokensHistogram.Family():     generation,
		sglang.FamilyPerStageReqLatencySeconds.Family():     exponential(perStageStart, perStageFactor, perStageCount),
		sglang.FamilyEPLBGPUPhysicalCount.Family():          upTo(a.EPSize),
	}
	for name, bounds := range map[sglang.FamilyName][]float64{
		sglang.FamilyTimeToFirstTokenSeconds:          a.BucketTimeToFirstToken,
		sglang.FamilyInterTokenLatencySeconds:         a.BucketInterTokenLatency,
		sglang.FamilyRequestTimePerOutputTokenSeconds: a.BucketInterTokenLatency,
		sglang.FamilyE2ERequestLatencySeconds:         a.BucketE2ERequestLatency,
		sglang.FamilyEvictionDurationSeconds:          a.BucketEvictionDuration,
	} {
		if bounds != nil {
			m[name.Family()] = ascending(bounds)
		}
	}
	return m, nil
}

func wrapKey(key string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", key, err)
}

// GenerateBuckets gives the bounds of a rule: nothing or "default", "tse MIDDLE
// BASE COUNT" (exponential to both sides of the middle, none below 0), or "custom
// A B C". It returns an error that says what was expected.
func GenerateBuckets(rule []string, defaults []float64) ([]float64, error) {
	if len(rule) == 0 {
		return ascending(defaults), nil
	}
	switch rule[0] {
	case ruleDefault:
		return ascending(defaults), nil
	case ruleTSE:
		return twoSided(rule[1:])
	case ruleCustom:
		bounds, err := parseBounds(rule[1:])
		return ascending(bounds), err
	default:
		return nil, fmt.Errorf("must begin with %s, %s or %s, got %q", ruleDefault, ruleTSE, ruleCustom, rule[0])
	}
}

func twoSided(params []string) ([]float64, error) {
	nums, err := parseBounds(params)
	if err != nil {
		return nil, err
	}
	if len(nums) != 3 || nums[1] <= 1 || nums[2] < 1 || nums[2] > maxBounds {
		return nil, fmt.Errorf("%s takes a middle, a base above 1 and a count up to %d, got %q", ruleTSE, maxBounds, params)
	}
	middle, base, half := nums[0], nums[1], int(math.Ceil(math.Floor(nums[2])/2))
	bounds, distance := []float64{middle}, 1.0
	for range half {
		distance *= base
		bounds = append(bounds, middle+distance, max(0, middle-distance))
	}
	return ascending(bounds), nil
}

func parseBounds(params []string) ([]float64, error) {
	if len(params) == 0 || len(params) > maxBounds {
		return nil, fmt.Errorf("must have 1 to %d numbers, got %d", maxBounds, len(params))
	}
	out := make([]float64, len(params))
	for i, p := range params {
		v, err := strconv.ParseFloat(p, 64)
		if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, fmt.Errorf("must be finite numbers, got %q", p)
		}
		out[i] = v
	}
	return out, nil
}

// ascending sorts and leaves out what is twice.
func ascending(bounds []float64) []float64 {
	out := slices.Clone(bounds)
	slices.Sort(out)
	return slices.Compact(out)
}

func exponential(start, factor float64, n int) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = start * math.Pow(factor, float64(i))
	}
	return out
}

// upTo is 0, 1, ... n-1.
func upTo(n int) []float64 {
	out := make([]float64, max(1, n))
	for i := range out {
		out[i] = float64(i)
	}
	return out
}
