#include "core/base/json_tree.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "backplane/text.hpp"

namespace bp::base {

namespace {

// Builds the tree while the limits hold; each callback answers whether to go on. What an open
// container holds waits on stacks until it is closed: its size is known then, so that nothing in it
// is copied again as it grows (ordered_json's members have constant keys and cannot be moved).
template <class Tree>
class TreeBuilder {
  static constexpr bool kInOrder = std::is_same_v<Tree, nlohmann::ordered_json>;

 public:
  using number_integer_t = typename Tree::number_integer_t;
  using number_unsigned_t = typename Tree::number_unsigned_t;
  using number_float_t = typename Tree::number_float_t;
  using string_t = typename Tree::string_t;
  using binary_t = typename Tree::binary_t;

  TreeBuilder(std::string_view text, const JsonLimits& limits) : text_(text), limits_(limits) {}

  bool null() { return add(nullptr); }
  bool boolean(bool value) { return add(value); }
  bool number_integer(number_integer_t value) { return add(value); }
  bool number_unsigned(number_unsigned_t value) { return add(value); }
  bool number_float(number_float_t value, const string_t&) { return add(value); }
  bool string(string_t& value) { return add(std::move(value)); }
  bool binary(binary_t&) { return fail("binary data is no JSON"); }
  bool start_object(size_t) { return open(true); }
  bool start_array(size_t) { return open(false); }
  bool key(string_t& name) {
    keys_.push_back(std::move(name));
    return true;
  }
  bool end_object() {
    const std::span<std::string> keys = std::span(keys_).subspan(levels_.back().first_key);
    typename Tree::object_t members;
    if (const std::string* twice = move_members(keys, members)) {
      return fail(fmt::format("member {} stands twice{}", quote(*twice), path()));
    }
    keys_.resize(levels_.back().first_key);
    return close(std::move(members));
  }
  bool end_array() {
    const auto first = values_.begin() + static_cast<ptrdiff_t>(levels_.back().first_value);
    return close(typename Tree::array_t(std::make_move_iterator(first),
                                        std::make_move_iterator(values_.end())));
  }
  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception&) {
    const size_t at = std::min(position, text_.size());
    const auto line = 1 + std::ranges::count(text_.substr(0, at), '\n');
    return fail(fmt::format("no valid JSON at byte {} (line {})", at, line));
  }

  [[nodiscard]] const std::string& error() const { return error_; }
  // Once all is read.
  [[nodiscard]] Tree take_root() { return std::move(values_.front()); }

 private:
  struct Level {
    size_t first_value, first_key;  // on the stacks
    bool is_object;
  };
  struct HashedKey {
    size_t hash, index;
  };

  template <class T>
  bool add(T&& value) {
    if (!count_value()) return false;
    values_.emplace_back(std::forward<T>(value));
    return true;
  }
  bool count_value() {
    if (++n_values_ <= limits_.n_values) return true;
    return fail(fmt::format("it has more than {} values", limits_.n_values));
  }

  bool open(bool is_object) {
    if (levels_.size() == limits_.depth) {
      return fail(fmt::format("it nests deeper than {} levels", limits_.depth));
    }
    levels_.push_back({values_.size(), keys_.size(), is_object});
    return count_value();
  }
  template <class Container>
  bool close(Container container) {
    values_.resize(levels_.back().first_value);
    levels_.pop_back();
    values_.emplace_back(std::move(container));
    return true;
  }
  bool fail(std::string error) {
    if (error_.empty()) error_ = std::move(error);
    return false;
  }

  // Of the innermost object; the key that stands twice, or null.
  const std::string* move_members(std::span<std::string> keys, typename Tree::object_t& members) {
    const auto values = std::span(values_).subspan(levels_.back().first_value);
    if constexpr (kInOrder) {
      if (const std::string* twice = repeated(keys)) return twice;
      members.Container::reserve(keys.size());
    }
    for (size_t i = 0; i < keys.size(); ++i) {
      if constexpr (kInOrder) {
        // Below ordered_json's own insertion, which would look for the key again.
        members.Container::emplace_back(std::move(keys[i]), std::move(values[i]));
      } else if (!members.try_emplace(std::move(keys[i]), std::move(values[i])).second) {
        return &keys[i];
      }
    }
    return nullptr;
  }

  // By sorting: a hash table takes one of a million keys long to fill and to free, and all the
  // longer where keys were chosen to fall together.
  const std::string* repeated(std::span<const std::string> keys) {
    hashes_.clear();
    for (const std::string& key : keys) {
      hashes_.push_back({std::hash<std::string>()(key), hashes_.size()});
    }
    const auto place = [&](const HashedKey& k) { return std::tie(k.hash, keys[k.index]); };
    std::ranges::sort(hashes_, {}, place);
    const auto twice = std::ranges::adjacent_find(hashes_, {}, place);
    return twice == hashes_.end() ? nullptr : &keys[twice->index];
  }

  // " in model.vocab": of the innermost container.
  [[nodiscard]] std::string path() const {
    std::string path;
    for (size_t i = 1; i < levels_.size(); ++i) {
      const Level &outer = levels_[i - 1], &inner = levels_[i];
      if (outer.is_object) {
        path += (path.empty() ? "" : ".") + keys_[inner.first_key - 1].substr(0, 64);
      } else {
        path += fmt::format("[{}]", inner.first_value - outer.first_value);
      }
    }
    return path.empty() ? path : " in " + path;
  }

  std::string_view text_;
  const JsonLimits& limits_;
  std::vector<Level> levels_;
  std::vector<Tree> values_;
  std::vector<std::string> keys_;
  std::vector<HashedKey> hashes_;  // of the object being closed
  size_t n_values_ = 0;
  std::string error_;
};

}  // namespace

template <class Tree>
Result<Tree> parse_json(std::string_view text, const JsonLimits& limits) {
  TreeBuilder<Tree> builder(text, limits);
  if (!Tree::sax_parse(text, &builder)) return invalid_argument(builder.error());
  return builder.take_root();
}

template Result<nlohmann::json> parse_json(std::string_view, const JsonLimits&);
template Result<nlohmann::ordered_json> parse_json(std::string_view, const JsonLimits&);

}  // namespace bp::base
