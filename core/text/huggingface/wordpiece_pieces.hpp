#pragma once
// WordPiece: the longest token first; a word with a part that is no token is one unknown token.

#include "core/text/huggingface/pipeline.hpp"
#include "core/text/piece_model.hpp"
#include "core/text/text_index.hpp"

namespace bp::text::huggingface {

class WordPiecePieces final : public PieceModel {
 public:
  // Refers to both.
  WordPiecePieces(const Vocabulary& vocabulary, const Pipeline& pipeline);

  void encode(std::string_view piece, PieceScratch& scratch,
              std::vector<int32_t>& ids) const override;

 private:
  void encode_word(std::string_view piece, std::vector<int32_t>& ids) const;

  const Pipeline& pipeline_;
  TextIndex pieces_;
  int32_t unknown_;
};

}  // namespace bp::text::huggingface
