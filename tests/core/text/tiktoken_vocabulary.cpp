#include "tests/core/text/tiktoken_vocabulary.hpp"

#include <algorithm>
#include <fstream>
#include <string>
#include <tuple>
#include <unordered_map>

#include "tests/core/text/small_vocabulary.hpp"

namespace bp::text::testing {
namespace {

std::string decode_base64(std::string_view text) {
  const std::string_view digits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  uint32_t bits = 0;
  int n_bits = 0;
  for (const char c : text) {
    const size_t digit = digits.find(c);
    if (digit == std::string_view::npos) break;
    bits = bits << 6 | static_cast<uint32_t>(digit);
    n_bits += 6;
    if (n_bits < 8) continue;
    n_bits -= 8;
    bytes.push_back(static_cast<char>(bits >> n_bits));
  }
  return bytes;
}

std::string to_alphabet(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) text += alphabet_text(static_cast<uint8_t>(byte));
  return text;
}

}  // namespace

Vocabulary read_tiktoken(const std::filesystem::path& path, std::string pre) {
  std::vector<std::string> pieces;  // by rank
  std::unordered_map<std::string, size_t> rank_of;
  std::ifstream file(path);
  std::string base64;
  for (size_t rank; file >> base64 >> rank;) {
    EXPECT_EQ(rank, pieces.size());
    rank_of.emplace(pieces.emplace_back(decode_base64(base64)), rank);
  }

  Vocabulary v;
  v.model = "gpt2";
  v.pre = std::move(pre);
  for (const std::string& piece : pieces) {
    add_token(v, to_alphabet(piece));
    // Any two tokens that make up this one are a merge of its rank, the lower ranks first.
    std::vector<std::tuple<size_t, size_t>> splits;
    for (size_t k = 1; k < piece.size(); ++k) {
      const auto left = rank_of.find(piece.substr(0, k));
      const auto right = rank_of.find(piece.substr(k));
      if (left != rank_of.end() && right != rank_of.end()) {
        splits.emplace_back(left->second, right->second);
      }
    }
    std::ranges::sort(splits);
    for (const auto& [left, right] : splits) {
      v.merges.push_back(to_alphabet(pieces[left]) + ' ' + to_alphabet(pieces[right]));
    }
  }
  return v;
}

}  // namespace bp::text::testing
