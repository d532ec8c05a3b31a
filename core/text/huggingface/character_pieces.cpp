#include "core/text/huggingface/character_pieces.hpp"

#include <algorithm>

#include "core/text/huggingface/word_marks.hpp"
#include "core/text/utf8.hpp"

namespace bp::text::huggingface {

CharacterPieces::CharacterPieces(const Vocabulary& vocabulary, const Pipeline& pipeline)
    : pipeline_(pipeline), pieces_(vocabulary.tokens), unknown_(vocabulary.unk) {
  id_of_byte_.fill(kNoToken);
  for (int32_t id = 0; id < vocabulary.n_tokens(); ++id) {
    const std::string_view text = vocabulary.tokens[static_cast<size_t>(id)];
    const TokenType type = vocabulary.type(id);
    if (type == TokenType::kByte) id_of_byte_[*parse_byte_token(text)] = id;
    if (type != TokenType::kNormal && type != TokenType::kUserDefined) continue;
    pieces_.insert(id);
    words_are_apart_ = words_are_apart_ && !has_mark_behind_text(text);
  }
  // A mark that is no token is unknown, and may be one with an unknown character before it.
  words_are_apart_ = words_are_apart_ && pieces_.find(kSpaceMark) != kNoToken;
  has_all_bytes_ = std::ranges::find(id_of_byte_, kNoToken) == id_of_byte_.end();
}

void CharacterPieces::encode(std::string_view piece, PieceScratch& scratch,
                             std::vector<int32_t>& ids) const {
  while (!piece.empty()) {
    const std::string_view word = piece.substr(0, first_word_size(piece));
    scratch.words.append(word, ids, [&] { encode_word(word, scratch.merge, ids); });
    piece.remove_prefix(word.size());
  }
}

// Where no token crosses from a word to the next mark, each word is merged alone.
size_t CharacterPieces::first_word_size(std::string_view text) const {
  return words_are_apart_ ? marked_word_size(text) : text.size();
}

void CharacterPieces::encode_word(std::string_view word, MergeScratch& scratch,
                                  std::vector<int32_t>& ids) const {
  if (pipeline_.prefers_whole_pieces) {
    if (const int32_t whole = pieces_.find(word); whole != kNoToken) return ids.push_back(whole);
  }
  auto& symbols = scratch.symbols;
  symbols.clear();
  const char* const end = word.data() + word.size();
  for (const char* p = word.data(); p < end;) {
    const uint32_t size = decode_utf8(p, end).size;
    const auto begin = static_cast<uint32_t>(p - word.data());
    const int32_t id = pieces_.find(word.substr(begin, size));
    if (id != kNoToken) {
      symbols.push_back({begin, size, id});
    } else {
      add_unknown(word, begin, size, symbols);
    }
    p += size;
  }
  merge_symbols(scratch, [this](const Symbol& left, const Symbol& right) {
    return pipeline_.merges.find(left.id, right.id);
  });
  for (const Symbol& symbol : symbols) ids.push_back(symbol.id);
}

void CharacterPieces::add_unknown(std::string_view word, uint32_t begin, uint32_t size,
                                  std::vector<Symbol>& symbols) const {
  if (pipeline_.byte_fallback && has_all_bytes_) {
    for (uint32_t i = begin; i < begin + size; ++i) {
      symbols.push_back({i, 1, id_of_byte_[static_cast<uint8_t>(word[i])]});
    }
    return;
  }
  if (unknown_ == kNoToken) return;
  if (pipeline_.fuses_unknown && !symbols.empty() && symbols.back().id == unknown_) {
    symbols.back().size += size;
  } else {
    symbols.push_back({begin, size, unknown_});
  }
}

}  // namespace bp::text::huggingface
