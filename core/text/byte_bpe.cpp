#include "core/text/byte_bpe.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/text/byte_pieces.hpp"
#include "core/text/pre_tokenizer.hpp"

namespace bp::text {
namespace {

// Merges whose parts or outcome are no tokens are left out: they could never give ids.
Result<PairMerges> index_merges(const Vocabulary& vocabulary) {
  TextIndex ids(vocabulary.tokens);
  for (int32_t id = 0; id < vocabulary.n_tokens(); ++id) {
    if (!is_control_type(vocabulary.type(id))) ids.insert(id);
  }
  PairMerges merges(vocabulary.merges.size());
  std::string joined;
  for (size_t rank = 0; rank < vocabulary.merges.size(); ++rank) {
    const std::string_view merge = vocabulary.merges[rank];
    const size_t space = merge.find(' ', 1);
    if (space == std::string_view::npos || space + 1 == merge.size()) {
      return invalid_argument(
          fmt::format("tokenizer.ggml.merges[{}] is not two texts with a space between", rank));
    }
    const std::string_view left = merge.substr(0, space);
    const std::string_view right = merge.substr(space + 1);
    joined.assign(left).append(right);
    const std::array parts = {ids.find(left), ids.find(right), ids.find(joined)};
    if (std::ranges::find(parts, kNoToken) != parts.end()) continue;
    merges.insert(parts[0], parts[1], {static_cast<uint32_t>(rank), parts[2]});
  }
  return merges;
}

class ByteBpe final : public Tokenizer {
 public:
  static Result<std::unique_ptr<Tokenizer>> create(Vocabulary vocabulary) {
    BP_ASSIGN(PreTokenizer pre_tokenizer, PreTokenizer::create(vocabulary.pre));
    BP_ASSIGN(SpecialTokens special, SpecialTokens::create(vocabulary));
    BP_ASSIGN(PairMerges merges, index_merges(vocabulary));
    vocabulary.merges.clear();
    auto bytes = render_byte_tokens(vocabulary);
    Parts parts{std::move(vocabulary), std::move(special), std::move(bytes)};
    return std::unique_ptr<Tokenizer>(
        new ByteBpe(std::move(parts), std::move(pre_tokenizer), std::move(merges)));
  }

 private:
  ByteBpe(Parts parts, PreTokenizer pre_tokenizer, PairMerges merges)
      : Tokenizer(std::move(parts)),
        pre_tokenizer_(std::move(pre_tokenizer)),
        merges_(std::move(merges)),
        pieces_(vocabulary(), all_token_bytes(), merges_, pre_tokenizer_.prefers_whole_pieces()) {}

  void encode_text(std::string_view text, TextPlace, std::vector<int32_t>& ids) const override {
    PieceScratch scratch;
    pre_tokenizer_.for_each_piece(
        text, [&](std::string_view piece) { pieces_.encode(piece, scratch, ids); });
  }

  PreTokenizer pre_tokenizer_;
  PairMerges merges_;
  BytePieces pieces_;
};

}  // namespace

Result<std::unique_ptr<Tokenizer>> create_byte_bpe(Vocabulary vocabulary) {
  return ByteBpe::create(std::move(vocabulary));
}

}  // namespace bp::text
