#include "core/server/json_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace bp::server {

namespace {

using Json = nlohmann::ordered_json;

// Builds the tree while the limits hold; each callback answers whether to go on. What an open
// container holds waits on stacks until it is closed: its size is known then, so that nothing in it
// is copied again as it grows (ordered_json's members have constant keys and cannot be moved).
class TreeBuilder {
 public:
  using number_integer_t = Json::number_integer_t;
  using number_unsigned_t = Json::number_unsigned_t;
  using number_float_t = Json::number_float_t;
  using string_t = Json::string_t;
  using binary_t = Json::binary_t;

  explicit TreeBuilder(const JsonLimits& limits) : limits_(limits) {}

  bool null() { return add(nullptr); }
  bool boolean(bool value) { return add(value); }
  bool number_integer(number_integer_t value) { return add(value); }
  bool number_unsigned(number_unsigned_t value) { return add(value); }
  bool number_float(number_float_t value, const string_t&) { return add(value); }
  bool string(string_t& value) { return add(std::move(value)); }
  bool binary(binary_t&) { return fail("binary data is no JSON"); }
  bool start_object(size_t) { return open(); }
  bool start_array(size_t) { return open(); }
  bool key(string_t& name) {
    keys_.push_back(std::move(name));
    return true;
  }
  bool end_object() {
    const Level level = levels_.back();
    const std::span<std::string> keys = std::span(keys_).subspan(level.first_key);
    if (const std::string* twice = repeated(keys)) {
      return fail(fmt::format("the key '{}' stands twice", *twice));
    }
    Json::object_t members;
    members.Container::reserve(keys.size());
    // Below ordered_json's own insertion, which would look for the key again.
    for (size_t i = 0; i < keys.size(); ++i) {
      members.Container::emplace_back(std::move(keys[i]),
                                      std::move(values_[level.first_value + i]));
    }
    keys_.resize(level.first_key);
    return close(std::move(members));
  }
  bool end_array() {
    const auto first = values_.begin() + static_cast<ptrdiff_t>(levels_.back().first_value);
    return close(
        Json::array_t(std::make_move_iterator(first), std::make_move_iterator(values_.end())));
  }
  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception&) {
    return fail(fmt::format("it is no valid JSON at byte {}", position));
  }

  [[nodiscard]] const std::string& error() const { return error_; }
  // Once all is read.
  [[nodiscard]] Json take_root() { return std::move(values_.front()); }

 private:
  struct Level {
    size_t first_value, first_key;  // on the stacks
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

  bool open() {
    if (levels_.size() == limits_.depth) {
      return fail(fmt::format("it nests deeper than {} levels", limits_.depth));
    }
    levels_.push_back({values_.size(), keys_.size()});
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

  // A key that stands twice, or null. By sorting: a hash table takes one of a million keys long to
  // fill and to free, and all the longer where keys were chosen to fall together.
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

  const JsonLimits& limits_;
  std::vector<Level> levels_;
  std::vector<Json> values_;
  std::vector<std::string> keys_;
  std::vector<HashedKey> hashes_;  // of the object being closed
  size_t n_values_ = 0;
  std::string error_;
};

}  // namespace

Result<Json> parse_json(std::string_view text, const JsonLimits& limits) {
  TreeBuilder builder(limits);
  if (!Json::sax_parse(text, &builder)) return invalid_argument(builder.error());
  return builder.take_root();
}

}  // namespace bp::server
