#pragma once
// BPE over characters, merges by rank: the model behind SentencePiece vocabularies in
// tokenizer.json.

#include <array>

#include "core/text/huggingface/pipeline.hpp"
#include "core/text/piece_model.hpp"
#include "core/text/text_index.hpp"

namespace bp::text::huggingface {

class CharacterPieces final : public PieceModel {
 public:
  // Refers to both.
  CharacterPieces(const Vocabulary& vocabulary, const Pipeline& pipeline);

  void encode(std::string_view piece, PieceScratch& scratch,
              std::vector<int32_t>& ids) const override;

 private:
  void encode_word(std::string_view word, MergeScratch& scratch, std::vector<int32_t>& ids) const;
  void add_unknown(std::string_view word, uint32_t begin, uint32_t size,
                   std::vector<Symbol>& symbols) const;
  [[nodiscard]] size_t first_word_size(std::string_view text) const;

  const Pipeline& pipeline_;
  TextIndex pieces_;
  std::array<int32_t, 256> id_of_byte_;
  bool has_all_bytes_ = true;
  int32_t unknown_;
  bool words_are_apart_ = true;  // no token has a mark of a space behind text
};

}  // namespace bp::text::huggingface
