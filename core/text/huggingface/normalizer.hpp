#pragma once
// The normalizer of tokenizer.json: what a text becomes before it is split.

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backplane/status.hpp"

namespace bp::text::huggingface {

class Charsmap;

class Normalizer {
 public:
  // Null: none.
  static Result<Normalizer> parse(const nlohmann::json* normalizer);
  // The charsmap of a SentencePiece model, applied as its library does.
  static Result<Normalizer> of_charsmap(std::string charsmap);

  // Appends a step that is no Sequence.
  Status add(const nlohmann::json& step);
  // Appends what SentencePiece does to spaces: one of each run stays, none at the ends.
  void add_collapse();

  // Whether it puts something before every text.
  [[nodiscard]] bool prepends() const { return prepends_; }
  [[nodiscard]] bool is_identity() const { return steps_.empty(); }
  [[nodiscard]] std::string apply(std::string_view text) const;
  // The charsmap that its first step applies, or empty.
  [[nodiscard]] const std::string& charsmap() const { return charsmap_; }

 private:
  using ApplyCharsmap = std::string (Charsmap::*)(std::string_view text, size_t max_bytes) const;
  Status add_charsmap(std::string bytes, ApplyCharsmap apply);
  // Appends a step that makes a text longer by little, or a character by few.
  template <class Change>
  void add_change(Change change) {
    steps_.push_back(
        [change = std::move(change)](std::string_view text, size_t) { return change(text); });
  }

  using Step = std::function<std::string(std::string_view text, size_t max_bytes)>;

  std::vector<Step> steps_;
  std::string charsmap_;
  bool prepends_ = false;
};

}  // namespace bp::text::huggingface
