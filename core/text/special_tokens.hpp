#pragma once
// Finds the texts of control and user-defined tokens in a text: leftmost, then longest.

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "backplane/status.hpp"
#include "core/text/vocabulary.hpp"

namespace bp::text {

class SpecialTokens {
 public:
  // Texts are walked from every position where one may begin; this bounds that walk.
  static constexpr size_t kMaxTextBytes = 512;

  static Result<SpecialTokens> create(const Vocabulary& vocabulary);

  struct Match {
    size_t begin;
    size_t size;
    int32_t id;  // kNoToken: no match, begin is the text's size
  };

  // The first special token in the text; with `control` false only user-defined ones count.
  [[nodiscard]] Match find(std::string_view text, bool control) const;

 private:
  struct Node {
    std::vector<std::pair<char, uint32_t>> children;
    int32_t id = kNoToken;
    bool is_control = false;
  };

  void insert(std::string_view text, int32_t id, bool is_control);
  [[nodiscard]] uint32_t child(uint32_t node, char byte) const;
  [[nodiscard]] Match longest_at(std::string_view text, size_t begin, bool control) const;

  std::vector<Node> nodes_ = std::vector<Node>(1);  // a trie; node 0 is the root
  std::array<bool, 256> begins_user_defined_{};
  std::array<bool, 256> begins_any_{};
};

}  // namespace bp::text
