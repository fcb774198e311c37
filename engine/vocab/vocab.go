// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

// Package vocab stands in for a tokenizer: text becomes token ids and back, always
// the same way, so that equal prefixes are equal ids and an answer that a client
// sends back as history is the tokens that were generated.
package vocab // import "github.com/otelcol-sglang/otelcol-sglang/engine/vocab"

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// Size is the number of ids, as Llama 3 has.
	Size = 128256
	// reserved ids are those of the chat template.
	reserved = 256
	// pieceLen is the most bytes of one token, with its leading blank: English text
	// comes to about four characters a token.
	pieceLen = 1 + 2*syllables
	// syllables make a word: enough for every id.
	syllables  = 3
	consonants = "bdfghjklmnprstvz"
	vowels     = "aeiou"
)

// Ids of the chat template.
const (
	BeginOfText int32 = iota
	StartHeader
	EndHeader
	EndOfTurn
)

// Encode turns text into ids.
func Encode(text string) []int32 { return Append(nil, text) }

// Append appends the ids of text.
func Append(ids []int32, text string) []int32 {
	for text != "" {
		n := pieceOf(text)
		ids = append(ids, idOf(text[:n]))
		text = text[n:]
	}
	return ids
}

// Chat appends a message as the chat template writes it.
func Chat(ids []int32, role, content string) []int32 {
	ids = append(ids, StartHeader)
	ids = Append(ids, role)
	ids = append(ids, EndHeader)
	ids = Append(ids, content)
	return append(ids, EndOfTurn)
}

// ChatPrompt appends the header of the answer that is to come.
func ChatPrompt(ids []int32) []int32 {
	ids = append(ids, StartHeader)
	ids = Append(ids, "assistant")
	return append(ids, EndHeader)
}

// Decode turns ids into text; Encode gives the same ids back for those that are no
// template's.
func Decode(ids []int32) string {
	var b strings.Builder
	b.Grow(len(ids) * pieceLen)
	for _, id := range ids {
		writeWord(&b, id)
	}
	return b.String()
}

// pieceOf is the length of the first token's text: up to the next blank, and no
// more than pieceLen bytes of whole characters.
func pieceOf(text string) int {
	for i, r := range text {
		if i > 0 && (unicode.IsSpace(r) || i+utf8.RuneLen(r) > pieceLen) {
			return i
		}
	}
	return len(text)
}

func idOf(piece string) int32 {
	if id, ok := wordID(piece); ok {
		return id
	}
	const offset, prime = 2166136261, 16777619 // FNV-1a
	h := uint32(offset)
	for i := range len(piece) {
		h = (h ^ uint32(piece[i])) * prime
	}
	return reserved + int32(h%(Size-reserved))
}

func writeWord(b *strings.Builder, id int32) {
	b.WriteByte(' ')
	for range syllables {
		s := id % int32(len(consonants)*len(vowels))
		id /= int32(len(consonants) * len(vowels))
		b.WriteByte(consonants[s%int32(len(consonants))])
		b.WriteByte(vowels[s/int32(len(consonants))])
	}
}

// wordID is the reverse of writeWord.
func wordID(piece string) (int32, bool) {
	if len(piece) != pieceLen || piece[0] != ' ' {
		return 0, false
	}
	id := 0
	for i := pieceLen - 2; i > 0; i -= 2 {
		c, v := strings.IndexByte(consonants, piece[i]), strings.IndexByte(vowels, piece[i+1])
		if c < 0 || v < 0 {
			return 0, false
		}
		id = id*len(consonants)*len(vowels) + v*len(consonants) + c
	}
	return int32(id), id >= reserved && id < Size
}
