#include "core/text/huggingface/wordpiece_pieces.hpp"

#include <algorithm>

namespace bp::text::huggingface {
namespace {

bool is_continuation_byte(char byte) {
  return (static_cast<uint8_t>(byte) & 0xC0) == 0x80;
}

}  // namespace

WordPiecePieces::WordPiecePieces(const Vocabulary& vocabulary, const Pipeline& pipeline)
    : pipeline_(pipeline), pieces_(vocabulary.tokens), unknown_(vocabulary.unk) {
  for (int32_t id = 0; id < vocabulary.n_tokens(); ++id) {
    if (!is_control_type(vocabulary.type(id))) pieces_.insert(id);
  }
}

void WordPiecePieces::encode(std::string_view piece, PieceScratch& scratch,
                             std::vector<int32_t>& ids) const {
  scratch.words.append(piece, ids, [&] { encode_word(piece, ids); });
}

void WordPiecePieces::encode_word(std::string_view piece, std::vector<int32_t>& ids) const {
  const auto n_characters =
      piece.size() - static_cast<size_t>(std::ranges::count_if(piece, is_continuation_byte));
  const size_t n_before = ids.size();
  bool is_known = n_characters <= pipeline_.max_word_characters;
  std::string text;
  for (size_t at = 0; is_known && at < piece.size();) {
    int32_t id = kNoToken;
    const size_t head = at > 0 ? pipeline_.continuation.size() : 0;
    const size_t room = std::max(pieces_.max_size(), head) - head;
    size_t size = std::min(piece.size() - at, room);
    text.assign(at > 0 ? pipeline_.continuation : "").append(piece.substr(at, size));
    for (; size > 0; --size, text.pop_back()) {
      if (at + size < piece.size() && is_continuation_byte(piece[at + size])) continue;
      id = pieces_.find(text);
      if (id != kNoToken) break;
    }
    is_known = id != kNoToken;
    ids.push_back(id);
    at += size;
  }
  if (is_known) return;
  ids.resize(n_before);
  if (unknown_ != kNoToken) ids.push_back(unknown_);
}

}  // namespace bp::text::huggingface
