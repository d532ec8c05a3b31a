#include "tests/core/text/tiktoken_vocabulary.hpp"

#include <algorithm>
#include <fstream>
#include <string>
#include <tuple>
#include <unordered_map>

#include "core/text/huggingface/charsmap.hpp"
#include "tests/core/text/small_vocabulary.hpp"

namespace bp::text::testing {
namespace {

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
    rank_of.emplace(pieces.emplace_back(huggingface::decode_base64(base64).value()), rank);
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
