#pragma once
// BPE over bytes: the model behind byte-level vocabularies.

#include <array>
#include <vector>

#include "core/text/pair_merges.hpp"
#include "core/text/piece_model.hpp"
#include "core/text/text_index.hpp"
#include "core/text/text_list.hpp"
#include "core/text/vocabulary.hpp"
#include "core/text/whole_tokens.hpp"

namespace bp::text {

class BytePieces final : public PieceModel {
 public:
  // token_bytes: by id, what each token stands for. They and the merges outlive the model.
  // prefers_whole: a piece that is a token is that token, whatever its merges say.
  BytePieces(const Vocabulary& vocabulary, const TextList& token_bytes, const PairMerges& merges,
             bool prefers_whole);

  // Bytes that no token stands for are dropped.
  void encode(std::string_view piece, PieceScratch& scratch,
              std::vector<int32_t>& ids) const override;

 private:
  void merge(std::string_view piece, MergeScratch& scratch) const;

  const PairMerges& merges_;
  TextIndex pieces_;
  WholeTokens whole_tokens_;
  std::array<int32_t, 256> id_of_byte_;
  bool prefers_whole_;
};

// By id, the bytes that tokens written in the alphabet of byte-level BPE stand for.
TextList render_byte_tokens(const Vocabulary& vocabulary);

}  // namespace bp::text
