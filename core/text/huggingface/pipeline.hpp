#pragma once
// What tokenizer.json says beyond its vocabulary.

#include <cstdint>
#include <string>
#include <vector>

#include "core/text/huggingface/decoder.hpp"
#include "core/text/huggingface/normalizer.hpp"
#include "core/text/huggingface/splitter.hpp"
#include "core/text/pair_merges.hpp"

namespace bp::text::huggingface {

enum class ModelKind { kBpe, kUnigram, kWordPiece };

struct Pipeline {
  Normalizer normalizer;
  Splitter splitter;
  Decoder decoder;

  ModelKind kind = ModelKind::kBpe;
  PairMerges merges{0};                // BPE
  bool prefers_whole_pieces = false;   // BPE: a piece that is a token needs no merges
  bool byte_fallback = false;          // BPE, unigram: unknown characters become byte tokens
  bool fuses_unknown = false;          // BPE: neighbouring unknown characters are one token
  std::vector<double> scores;          // unigram, by id: log probabilities
  bool sums_in_float32 = false;        // unigram: over the whole text, as SentencePiece sums them
  std::string continuation;            // WordPiece: before pieces within a word
  uint32_t max_word_characters = 100;  // WordPiece: longer words are unknown
};

}  // namespace bp::text::huggingface
