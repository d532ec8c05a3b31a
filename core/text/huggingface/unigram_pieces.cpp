#include "core/text/huggingface/unigram_pieces.hpp"

#include <algorithm>
#include <limits>

#include "core/text/huggingface/word_marks.hpp"
#include "core/text/utf8.hpp"

namespace bp::text::huggingface {
namespace {

constexpr double kUnknownPenalty = 10.0;  // below the least probable token, as in SentencePiece

// The best way to reach a place in the piece.
template <class Sum>
struct Node {
  static constexpr uint32_t kUnreached = ~0u;
  Sum score = 0;
  uint32_t begin = kUnreached;  // of its last token
  int32_t id = kNoToken;
};

}  // namespace

UnigramPieces::UnigramPieces(const Vocabulary& vocabulary, const Pipeline& pipeline)
    : pipeline_(pipeline), unknown_(vocabulary.unk) {
  id_of_byte_.fill(kNoToken);
  std::vector<ByteTrie::Entry> pieces;
  double least = std::numeric_limits<double>::infinity();
  for (int32_t id = 0; id < vocabulary.n_tokens(); ++id) {
    const auto i = static_cast<size_t>(id);
    const TokenType type = vocabulary.type(id);
    if (type == TokenType::kByte) id_of_byte_[*parse_byte_token(vocabulary.tokens[i])] = id;
    if (i < pipeline.scores.size()) least = std::min(least, pipeline.scores[i]);
    if (i >= pipeline.scores.size() || id == unknown_) continue;
    const bool is_piece = type == TokenType::kNormal || type == TokenType::kUserDefined;
    if (is_piece && vocabulary.tokens[i].size() <= kMaxTokenBytes) {
      pieces.emplace_back(vocabulary.tokens[i], id);
      words_are_apart_ = words_are_apart_ && !has_mark_behind_text(vocabulary.tokens[i]);
    }
  }
  pieces_ = ByteTrie(std::move(pieces));
  // Where the mark is unknown, it and its neighbours are one unknown token.
  words_are_apart_ = words_are_apart_ && pieces_.contains(kSpaceMark);
  // A sum's rounding depends on all that stands before it.
  words_are_apart_ = words_are_apart_ && !pipeline.sums_in_float32;
  unknown_score_ = least - kUnknownPenalty;
  has_all_bytes_ = std::ranges::find(id_of_byte_, kNoToken) == id_of_byte_.end();
}

void UnigramPieces::encode(std::string_view piece, PieceScratch& scratch,
                           std::vector<int32_t>& ids) const {
  while (!piece.empty()) {
    const size_t size = words_are_apart_ ? marked_word_size(piece) : piece.size();
    const std::string_view word = piece.substr(0, size);
    scratch.words.append(word, ids, [&] {
      pipeline_.sums_in_float32 ? encode_word<float>(word, ids) : encode_word<double>(word, ids);
    });
    piece.remove_prefix(size);
  }
}

template <class Sum>
void UnigramPieces::encode_word(std::string_view piece, std::vector<int32_t>& ids) const {
  std::vector<Node<Sum>> best(piece.size() + 1);
  best[0].score = 0;
  const char* const end = piece.data() + piece.size();
  for (uint32_t at = 0; at < piece.size();) {
    const uint32_t char_size = decode_utf8(piece.data() + at, end).size;
    bool has_single = false;
    const auto propose = [&](uint32_t size, int32_t id, double score) {
      Node<Sum>& node = best[at + size];
      const Sum sum = static_cast<Sum>(best[at].score + score);
      if (node.begin == node.kUnreached || sum > node.score) node = {sum, at, id};
    };
    pieces_.for_each_prefix(piece.substr(at), [&](size_t size, int32_t id) {
      has_single = has_single || size == char_size;
      propose(static_cast<uint32_t>(size), id, pipeline_.scores[static_cast<size_t>(id)]);
    });
    if (!has_single) propose(char_size, unknown_, static_cast<Sum>(unknown_score_));
    at += char_size;
  }
  std::vector<Node<Sum>> path;
  std::vector<uint32_t> ends;
  for (auto at = static_cast<uint32_t>(piece.size()); at > 0; at = best[at].begin) {
    const bool joins = !path.empty() && best[at].id == unknown_ && path.back().id == unknown_;
    if (joins) {
      path.back().begin = best[at].begin;
    } else {
      path.push_back(best[at]);
      ends.push_back(at);
    }
  }
  for (size_t i = path.size(); i-- > 0;) {
    append(piece.substr(path[i].begin, ends[i] - path[i].begin), path[i].id, ids);
  }
}

void UnigramPieces::append(std::string_view token, int32_t id, std::vector<int32_t>& ids) const {
  if (id == unknown_ && pipeline_.byte_fallback && has_all_bytes_) {
    for (const char byte : token) ids.push_back(id_of_byte_[static_cast<uint8_t>(byte)]);
  } else if (id != kNoToken) {
    ids.push_back(id);
  }
}

}  // namespace bp::text::huggingface
