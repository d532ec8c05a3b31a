#pragma once
// The most probable cut of a piece into tokens.

#include <array>

#include "core/text/byte_trie.hpp"
#include "core/text/huggingface/pipeline.hpp"
#include "core/text/piece_model.hpp"

namespace bp::text::huggingface {

class UnigramPieces final : public PieceModel {
 public:
  static constexpr size_t kMaxTokenBytes = 1024;  // longer ones are never taken

  // Refers to both.
  UnigramPieces(const Vocabulary& vocabulary, const Pipeline& pipeline);

  // Time is the text's length times that of the longest token.
  void encode(std::string_view piece, PieceScratch& scratch,
              std::vector<int32_t>& ids) const override;

 private:
  // Sum: what the scores on the way to a place are added up in.
  template <class Sum>
  void encode_word(std::string_view word, std::vector<int32_t>& ids) const;
  void append(std::string_view token, int32_t id, std::vector<int32_t>& ids) const;

  const Pipeline& pipeline_;
  ByteTrie pieces_;
  std::array<int32_t, 256> id_of_byte_;
  bool has_all_bytes_ = true;
  bool words_are_apart_ = true;  // no token crosses from a word to the next mark
  int32_t unknown_;
  double unknown_score_;
};

}  // namespace bp::text::huggingface
