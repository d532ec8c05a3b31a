#include "core/text/huggingface/json_tree.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "backplane/text.hpp"

namespace bp::text::huggingface {
namespace {

using Tree = nlohmann::json;

constexpr size_t kMaxDepth = 64;

// Each callback answers whether to go on.
class TreeBuilder {
 public:
  using number_integer_t = Tree::number_integer_t;
  using number_unsigned_t = Tree::number_unsigned_t;
  using number_float_t = Tree::number_float_t;
  using string_t = Tree::string_t;
  using binary_t = Tree::binary_t;

  explicit TreeBuilder(Tree& root) : root_(root) {}

  bool null() { return add(nullptr) != nullptr; }
  bool boolean(bool value) { return add(value) != nullptr; }
  bool number_integer(number_integer_t value) { return add(value) != nullptr; }
  bool number_unsigned(number_unsigned_t value) { return add(value) != nullptr; }
  bool number_float(number_float_t value, const string_t&) { return add(value) != nullptr; }
  bool string(string_t& value) { return add(std::move(value)) != nullptr; }
  bool binary(binary_t&) { return false; }
  bool start_object(size_t) { return open(Tree::object()); }
  bool end_object() { return close(); }
  bool start_array(size_t) { return open(Tree::array()); }
  bool end_array() { return close(); }
  bool key(string_t& name) {
    auto& members = *levels_.back()->get_ptr<Tree::object_t*>();
    const auto [place, is_new] = members.try_emplace(std::move(name));
    member_ = &place->second;
    if (!is_new) error_ = fmt::format("member {} stands twice{}", quote(place->first), path());
    return is_new;
  }
  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception&) {
    position_ = position;
    return false;
  }

  // Empty where the text itself is at fault, up to position().
  [[nodiscard]] const std::string& error() const { return error_; }
  [[nodiscard]] size_t position() const { return position_; }

 private:
  template <class T>
  Tree* add(T&& value) {
    Tree* place = &root_;
    if (!levels_.empty() && levels_.back()->is_array()) {
      place = &levels_.back()->get_ptr<Tree::array_t*>()->emplace_back();
    } else if (!levels_.empty()) {
      place = member_;
    }
    *place = std::forward<T>(value);
    return place;
  }
  bool open(Tree container) {
    if (levels_.size() == kMaxDepth) {
      error_ = fmt::format("it nests deeper than {} levels", kMaxDepth);
      return false;
    }
    levels_.push_back(add(std::move(container)));
    return true;
  }
  bool close() {
    levels_.pop_back();
    return true;
  }

  // " in model.vocab": of the innermost object.
  [[nodiscard]] std::string path() const {
    std::string path;
    for (size_t i = 1; i < levels_.size(); ++i) {
      const Tree& outer = *levels_[i - 1];
      if (outer.is_array()) {
        path += fmt::format("[{}]", outer.size() - 1);
        continue;
      }
      const auto is_inner = [&](const auto& member) { return &member.second == levels_[i]; };
      const auto& members = *outer.get_ptr<const Tree::object_t*>();
      const auto inner = std::find_if(members.begin(), members.end(), is_inner);
      path += (path.empty() ? "" : ".") + inner->first.substr(0, 64);
    }
    return path.empty() ? path : " in " + path;
  }

  Tree& root_;
  std::vector<Tree*> levels_;
  Tree* member_ = nullptr;  // the place of the next value in an object
  std::string error_;
  size_t position_ = 0;
};

}  // namespace

Result<Tree> parse_tree(std::string_view text) {
  Tree root;
  TreeBuilder builder(root);
  if (Tree::sax_parse(text, &builder)) return root;
  if (!builder.error().empty()) return invalid_argument(builder.error());
  const size_t at = std::min(builder.position(), text.size());
  const auto line = 1 + std::ranges::count(text.substr(0, at), '\n');
  return invalid_argument(fmt::format("no valid JSON at byte {} (line {})", at, line));
}

}  // namespace bp::text::huggingface
