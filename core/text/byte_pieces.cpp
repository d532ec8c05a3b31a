#include "core/text/byte_pieces.hpp"

#include "core/text/byte_alphabet.hpp"

namespace bp::text {

TextList render_byte_tokens(const Vocabulary& vocabulary) {
  TextList bytes;
  bytes.reserve(vocabulary.tokens.size(), vocabulary.tokens.n_bytes());
  for (int32_t id = 0; id < vocabulary.n_tokens(); ++id) {
    const std::string_view text = vocabulary.tokens[static_cast<size_t>(id)];
    if (is_matched_whole(vocabulary.type(id))) {
      bytes.push_back(text);
    } else {
      bytes.push_back(bytes_of_alphabet(text));
    }
  }
  return bytes;
}

BytePieces::BytePieces(const Vocabulary& vocabulary, const TextList& token_bytes,
                       const PairMerges& merges, bool prefers_whole)
    : merges_(merges),
      pieces_(token_bytes),
      whole_tokens_(token_bytes.size()),
      prefers_whole_(prefers_whole) {
  for (int32_t id = 0; id < vocabulary.n_tokens(); ++id) {
    if (!is_matched_whole(vocabulary.type(id))) pieces_.insert(id);
  }
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    id_of_byte_[byte] = pieces_.find(std::string_view(&c, 1));
  }
}

void BytePieces::encode(std::string_view piece, PieceScratch& scratch,
                        std::vector<int32_t>& ids) const {
  const int32_t whole = pieces_.find(piece);
  const auto merges_to_itself = [&] {
    merge(piece, scratch.merge);
    return scratch.merge.symbols.size() == 1 && scratch.merge.symbols[0].id == whole;
  };
  if (whole != kNoToken && (prefers_whole_ || whole_tokens_.contains(whole, merges_to_itself))) {
    ids.push_back(whole);
    return;
  }
  merge(piece, scratch.merge);
  for (const Symbol& symbol : scratch.merge.symbols) {
    if (symbol.id != kNoToken) ids.push_back(symbol.id);
  }
}

void BytePieces::merge(std::string_view piece, MergeScratch& scratch) const {
  scratch.symbols.clear();
  for (uint32_t i = 0; i < piece.size(); ++i) {
    scratch.symbols.push_back({i, 1, id_of_byte_[static_cast<uint8_t>(piece[i])]});
  }
  merge_symbols(scratch, [this](const Symbol& left, const Symbol& right) {
    return merges_.find(left.id, right.id);
  });
}

}  // namespace bp::text
