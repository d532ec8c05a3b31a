#pragma once
// Finds the texts of control and user-defined tokens in a text: leftmost, then longest.

#include <array>
#include <cstdint>
#include <span>
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

  // Of Vocabulary::added, for a token that is to be found by another text than its own.
  Status add(std::string_view text, int32_t id, bool is_control, const AddedToken& flags);

  struct Match {
    size_t begin;
    size_t size;
    int32_t id;         // kNoToken: no match, begin is the text's size
    uint32_t node = 0;  // where its text ends in the trie
  };

  // The first special token in the text; with `control` false only user-defined ones count.
  // from: where to begin. plain_at: ascending offsets at which no control token begins, whatever
  // stands there.
  [[nodiscard]] Match find(std::string_view text, bool control, size_t from = 0,
                           std::span<const size_t> plain_at = {}) const;

  // Appends the offsets at which the text of a control token begins, be it cut off by the end.
  void find_control_texts(std::string_view text, std::vector<size_t>& offsets) const;

 private:
  struct Node {
    std::vector<std::pair<char, uint32_t>> children;
    int32_t id = kNoToken;
    bool is_control = false;
    bool leads_to_control = false;  // it or a node below ends the text of a control token
    bool takes_space_before = false;
    bool takes_space_behind = false;
    bool is_word = false;
  };

  void insert(std::string_view text, int32_t id, bool is_control, const AddedToken& flags);
  [[nodiscard]] uint32_t child(uint32_t node, char byte) const;
  [[nodiscard]] Match longest_at(std::string_view text, size_t begin, bool control) const;
  // The match with the white space that belongs to it, from `from` on; no id where it is a part of
  // a word.
  [[nodiscard]] Match with_surroundings(std::string_view text, size_t from, Match match) const;
  [[nodiscard]] bool control_text_begins_at(std::string_view text, size_t begin) const;

  std::vector<Node> nodes_ = std::vector<Node>(1);  // a trie; node 0 is the root
  std::array<bool, 256> begins_user_defined_{};
  std::array<bool, 256> begins_any_{};
};

}  // namespace bp::text
