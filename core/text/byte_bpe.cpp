#include "core/text/byte_bpe.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/text/byte_alphabet.hpp"
#include "core/text/merge.hpp"
#include "core/text/pair_merges.hpp"
#include "core/text/pre_tokenizer.hpp"
#include "core/text/text_index.hpp"
#include "core/text/whole_tokens.hpp"

namespace bp::text {
namespace {

std::vector<std::string> render_tokens(const Vocabulary& vocabulary) {
  std::vector<std::string> bytes;
  bytes.reserve(vocabulary.tokens.size());
  for (int32_t id = 0; id < vocabulary.n_tokens(); ++id) {
    const std::string& text = vocabulary.tokens[static_cast<size_t>(id)];
    bytes.push_back(is_matched_whole(vocabulary.type(id)) ? text : bytes_of_alphabet(text));
  }
  return bytes;
}

// Merges whose parts or outcome are no tokens are left out: they could never give ids.
Result<PairMerges> index_merges(const Vocabulary& vocabulary) {
  TextIndex ids(vocabulary.tokens.size());
  for (int32_t id = 0; id < vocabulary.n_tokens(); ++id) {
    if (is_control_type(vocabulary.type(id))) continue;
    ids.insert(vocabulary.tokens[static_cast<size_t>(id)], id);
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
    auto bytes = render_tokens(vocabulary);
    vocabulary.merges = {};
    Parts parts{std::move(vocabulary), std::move(special), std::move(bytes)};
    return std::unique_ptr<Tokenizer>(
        new ByteBpe(std::move(parts), pre_tokenizer, std::move(merges)));
  }

 private:
  ByteBpe(Parts parts, PreTokenizer pre_tokenizer, PairMerges merges)
      : Tokenizer(std::move(parts)),
        pre_tokenizer_(pre_tokenizer),
        merges_(std::move(merges)),
        pieces_(all_token_bytes().size()),
        whole_tokens_(all_token_bytes().size()) {
    for (int32_t id = 0; id < vocabulary().n_tokens(); ++id) {
      if (is_matched_whole(vocabulary().type(id))) continue;
      pieces_.insert(all_token_bytes()[static_cast<size_t>(id)], id);
    }
    for (uint32_t byte = 0; byte < 256; ++byte) {
      const char c = static_cast<char>(byte);
      id_of_byte_[byte] = pieces_.find(std::string_view(&c, 1));
    }
  }

  void encode_text(std::string_view text, bool, std::vector<int32_t>& ids) const override {
    MergeScratch scratch;
    pre_tokenizer_.for_each_piece(
        text, [&](std::string_view piece) { encode_piece(piece, scratch, ids); });
  }

  void encode_piece(std::string_view piece, MergeScratch& scratch,
                    std::vector<int32_t>& ids) const {
    const int32_t whole = pieces_.find(piece);
    const auto merges_to_itself = [&] {
      merge(piece, scratch);
      return scratch.symbols.size() == 1 && scratch.symbols[0].id == whole;
    };
    if (whole != kNoToken && (pre_tokenizer_.prefers_whole_pieces() ||
                              whole_tokens_.contains(whole, merges_to_itself))) {
      ids.push_back(whole);
      return;
    }
    merge(piece, scratch);
    for (const Symbol& symbol : scratch.symbols) {
      if (symbol.id != kNoToken) ids.push_back(symbol.id);
    }
  }

  void merge(std::string_view piece, MergeScratch& scratch) const {
    scratch.symbols.clear();
    for (uint32_t i = 0; i < piece.size(); ++i) {
      scratch.symbols.push_back({i, 1, id_of_byte_[static_cast<uint8_t>(piece[i])]});
    }
    merge_symbols(scratch, [this](const Symbol& left, const Symbol& right) {
      return merges_.find(left.id, right.id);
    });
  }

  PreTokenizer pre_tokenizer_;
  PairMerges merges_;
  TextIndex pieces_;
  WholeTokens whole_tokens_;
  std::array<int32_t, 256> id_of_byte_;
};

}  // namespace

Result<std::unique_ptr<Tokenizer>> create_byte_bpe(Vocabulary vocabulary) {
  return ByteBpe::create(std::move(vocabulary));
}

}  // namespace bp::text
