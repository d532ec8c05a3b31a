#include "core/text/sentencepiece.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <optional>

#include "core/text/huggingface/charsmap.hpp"
#include "core/text/huggingface/growth.hpp"
#include "core/text/huggingface/unicode_forms.hpp"
#include "core/text/merge.hpp"
#include "core/text/text_index.hpp"
#include "core/text/utf8.hpp"
#include "core/text/whole_tokens.hpp"

namespace bp::text {
namespace {

constexpr std::string_view kSpaceMark = "\xE2\x96\x81";  // U+2581, a space in token texts

std::string with_spaces(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t mark; (mark = text.find(kSpaceMark)) != std::string_view::npos;) {
    out.append(text.substr(0, mark)).push_back(' ');
    text.remove_prefix(mark + kSpaceMark.size());
  }
  return out.append(text);
}

std::string render(std::string_view text, TokenType type) {
  if (is_matched_whole(type)) return std::string(text);
  if (type == TokenType::kByte) return {static_cast<char>(*parse_byte_token(text))};
  return with_spaces(text);
}

// The highest score has the lowest rank. Precondition: not NaN.
uint32_t rank_of_score(float score) {
  const auto bits = std::bit_cast<uint32_t>(score + 0.0f);
  const uint32_t ascending = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
  return ~ascending;
}

bool has_space_behind_text(std::string_view text) {
  for (size_t i = 1; i < text.size(); ++i) {
    if (text[i] == ' ' && text[i - 1] != ' ') return true;
  }
  return false;
}

class SentencePiece final : public Tokenizer {
 public:
  static Result<std::unique_ptr<Tokenizer>> create(Vocabulary vocabulary) {
    if (vocabulary.scores.empty()) {
      return invalid_argument("tokenizer.ggml.scores is missing: model \"llama\" needs it");
    }
    std::optional<huggingface::Charsmap> charsmap;
    if (!vocabulary.charsmap.empty()) {
      BP_ASSIGN(charsmap, huggingface::Charsmap::parse(vocabulary.charsmap));
    }
    BP_ASSIGN(SpecialTokens special, SpecialTokens::create(vocabulary));
    TextList bytes;
    bytes.reserve(vocabulary.tokens.size(), vocabulary.tokens.n_bytes());
    for (int32_t id = 0; id < vocabulary.n_tokens(); ++id) {
      bytes.push_back(render(vocabulary.tokens[static_cast<size_t>(id)], vocabulary.type(id)));
    }
    const bool leading_space = vocabulary.add_space_prefix;
    Parts parts{std::move(vocabulary), std::move(special), std::move(bytes), leading_space,
                leading_space};
    return std::unique_ptr<Tokenizer>(new SentencePiece(std::move(parts), std::move(charsmap)));
  }

 private:
  SentencePiece(Parts parts, std::optional<huggingface::Charsmap> charsmap)
      : Tokenizer(std::move(parts)),
        charsmap_(std::move(charsmap)),
        pieces_(all_token_bytes()),
        whole_tokens_(all_token_bytes().size()) {
    id_of_byte_.fill(vocabulary().unk);
    for (int32_t id = 0; id < vocabulary().n_tokens(); ++id) {
      const std::string_view bytes = all_token_bytes()[static_cast<size_t>(id)];
      const TokenType type = vocabulary().type(id);
      rank_.push_back(rank_of_score(vocabulary().scores[static_cast<size_t>(id)]));
      if (type == TokenType::kByte) id_of_byte_[static_cast<uint8_t>(bytes[0])] = id;
      has_bytes_ = has_bytes_ || type == TokenType::kByte;
      if (type != TokenType::kNormal && type != TokenType::kUserDefined) continue;
      pieces_.insert(id);
      words_are_apart_ = words_are_apart_ && !has_space_behind_text(bytes);
    }
  }

  void encode_text(std::string_view text, TextPlace place,
                   std::vector<int32_t>& ids) const override {
    MergeScratch scratch;
    const std::string spaced = normalise(text, place.after_special);
    std::string_view rest = spaced;
    while (!rest.empty()) {
      const std::string_view word = rest.substr(0, first_word_size(rest));
      encode_word(word, scratch, ids);
      rest.remove_prefix(word.size());
    }
  }

  [[nodiscard]] std::string normalise(std::string_view text, bool after_special) const {
    const size_t max_bytes = huggingface::max_normalized_bytes(text.size());
    std::string spaced = with_spaces(charsmap_ ? charsmap_->apply(text, max_bytes) : text);
    if (vocabulary().remove_extra_whitespaces) spaced = huggingface::spaces_collapsed(spaced);
    const bool prefix = after_special && adds_leading_space() && !spaced.empty();
    return prefix ? ' ' + spaced : spaced;
  }

  // Where no token has a space behind text, merges never cross from a word to the next space, and
  // each word is merged alone.
  [[nodiscard]] size_t first_word_size(std::string_view text) const {
    if (!words_are_apart_) return text.size();
    const size_t word = std::min(text.find_first_not_of(' '), text.size());
    return std::min(text.find(' ', word), text.size());
  }

  void encode_word(std::string_view word, MergeScratch& scratch, std::vector<int32_t>& ids) const {
    const int32_t whole = pieces_.find(word);
    const auto merges_to_itself = [&] {
      merge(word, scratch);
      return scratch.symbols.size() == 1;
    };
    if (whole != kNoToken && whole_tokens_.contains(whole, merges_to_itself)) {
      ids.push_back(whole);
      return;
    }
    merge(word, scratch);
    for (const Symbol& symbol : scratch.symbols) {
      const std::string_view text = word.substr(symbol.begin, symbol.size);
      const int32_t id = symbol.id != kNoToken ? symbol.id : pieces_.find(text);
      if (id != kNoToken) {
        ids.push_back(id);
      } else {
        encode_bytes(text, ids);
      }
    }
  }

  void encode_bytes(std::string_view bytes, std::vector<int32_t>& ids) const {
    if (!has_bytes_) {
      const bool joins = !ids.empty() && ids.back() == vocabulary().unk;
      if (!joins && vocabulary().unk != kNoToken) ids.push_back(vocabulary().unk);
      return;
    }
    for (const char byte : bytes) {
      const int32_t id = id_of_byte_[static_cast<uint8_t>(byte)];
      if (id != kNoToken) ids.push_back(id);
    }
  }

  // Leaves characters that no merge took without an id: most are merged, and need no look-up.
  void merge(std::string_view word, MergeScratch& scratch) const {
    scratch.symbols.clear();
    const char* const end = word.data() + word.size();
    for (const char* p = word.data(); p < end;) {
      const uint32_t size = decode_utf8(p, end).size;
      scratch.symbols.push_back({static_cast<uint32_t>(p - word.data()), size, kNoToken});
      p += size;
    }
    merge_symbols(scratch, [&](const Symbol& left, const Symbol& right) -> PairMerge {
      const int32_t id = pieces_.find(word.substr(left.begin, left.size + right.size));
      if (id == kNoToken) return {};
      return {rank_[static_cast<size_t>(id)], id};
    });
  }

  std::optional<huggingface::Charsmap> charsmap_;
  TextIndex pieces_;
  WholeTokens whole_tokens_;
  std::vector<uint32_t> rank_;  // by id
  std::array<int32_t, 256> id_of_byte_;
  bool has_bytes_ = false;  // without, neighbouring unknown characters are one token
  bool words_are_apart_ = true;
};

}  // namespace

Result<std::unique_ptr<Tokenizer>> create_sentencepiece(Vocabulary vocabulary) {
  return SentencePiece::create(std::move(vocabulary));
}

}  // namespace bp::text
