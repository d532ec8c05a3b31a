#include "core/text/wordpiece.hpp"

#include <algorithm>

#include "core/text/bert_normaliser.hpp"
#include "core/text/text_index.hpp"

namespace bp::text {
namespace {

constexpr std::string_view kWordMark = "\xE2\x96\x81";  // U+2581 before the texts that begin a word
constexpr size_t kMaxWordCharacters = 100;  // longer words are unknown, as in BERT's tokenizer

std::string render(std::string_view text, TokenType type) {
  const bool begins_word = text.starts_with(kWordMark) && text != kWordMark;
  if (is_matched_whole(type) || !begins_word) return std::string(text);
  return std::string(1, ' ').append(text.substr(kWordMark.size()));
}

bool is_continuation(char byte) {
  return (static_cast<uint8_t>(byte) & 0xC0) == 0x80;
}

class WordPiece final : public Tokenizer {
 public:
  static Result<std::unique_ptr<Tokenizer>> create(Vocabulary vocabulary) {
    if (vocabulary.unk == kNoToken) {
      return invalid_argument(
          "tokenizer.ggml.unknown_token_id is missing: model \"bert\" needs it");
    }
    BP_ASSIGN(SpecialTokens special, SpecialTokens::create(vocabulary));
    TextList bytes;
    bytes.reserve(vocabulary.tokens.size(), vocabulary.tokens.n_bytes());
    for (int32_t id = 0; id < vocabulary.n_tokens(); ++id) {
      bytes.push_back(render(vocabulary.tokens[static_cast<size_t>(id)], vocabulary.type(id)));
    }
    Parts parts{std::move(vocabulary), std::move(special), std::move(bytes), true};
    return std::unique_ptr<Tokenizer>(new WordPiece(std::move(parts)));
  }

 private:
  explicit WordPiece(Parts parts) : Tokenizer(std::move(parts)), pieces_(all_token_bytes()) {
    for (int32_t id = 0; id < vocabulary().n_tokens(); ++id) {
      if (!is_matched_whole(vocabulary().type(id))) pieces_.insert(id);
    }
  }

  void encode_text(std::string_view text, TextPlace, std::vector<int32_t>& ids) const override {
    std::string spaced;
    const BertNormaliser::Options options = {vocabulary().lowercase, vocabulary().strip_accents};
    BertNormaliser::for_each_word(text, options, [&](std::string_view word) {
      spaced.assign(1, ' ').append(word);
      encode_word(spaced, ids);
    });
  }

  // Longest match first; a word with a part that is no token is one unknown token.
  void encode_word(std::string_view word, std::vector<int32_t>& ids) const {
    const size_t n_before = ids.size();
    bool is_known =
        word.size() - 1 - static_cast<size_t>(std::ranges::count_if(word, is_continuation)) <=
        kMaxWordCharacters;
    while (is_known && !word.empty()) {
      const auto [id, size] = longest_piece(word);
      ids.push_back(id);
      word.remove_prefix(size);
      is_known = id != kNoToken;
    }
    if (is_known) return;
    ids.resize(n_before);
    ids.push_back(vocabulary().unk);
  }

  struct Piece {
    int32_t id;
    size_t size;
  };

  [[nodiscard]] Piece longest_piece(std::string_view text) const {
    for (size_t size = std::min(text.size(), pieces_.max_size()); size > 0; --size) {
      if (size < text.size() && is_continuation(text[size])) continue;
      const int32_t id = pieces_.find(text.substr(0, size));
      if (id != kNoToken) return {id, size};
    }
    return {kNoToken, 0};
  }

  TextIndex pieces_;
};

}  // namespace

Result<std::unique_ptr<Tokenizer>> create_wordpiece(Vocabulary vocabulary) {
  return WordPiece::create(std::move(vocabulary));
}

}  // namespace bp::text
