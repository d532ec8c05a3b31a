#include "core/server/json_reader.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

namespace bp::server {

namespace {

using Json = nlohmann::ordered_json;

// Builds the tree while the limits hold; each callback answers whether to go on.
class TreeBuilder {
 public:
  using number_integer_t = Json::number_integer_t;
  using number_unsigned_t = Json::number_unsigned_t;
  using number_float_t = Json::number_float_t;
  using string_t = Json::string_t;
  using binary_t = Json::binary_t;

  TreeBuilder(const JsonLimits& limits, Json& root) : limits_(limits), root_(root) {}

  bool null() { return add(nullptr) != nullptr; }
  bool boolean(bool value) { return add(value) != nullptr; }
  bool number_integer(number_integer_t value) { return add(value) != nullptr; }
  bool number_unsigned(number_unsigned_t value) { return add(value) != nullptr; }
  bool number_float(number_float_t value, const string_t&) { return add(value) != nullptr; }
  bool string(string_t& value) { return add(std::move(value)) != nullptr; }
  bool binary(binary_t&) { return fail("binary data is no JSON"); }
  bool start_object(size_t) { return open(Json::object()); }
  bool end_object() { return close(); }
  bool start_array(size_t) { return open(Json::array()); }
  bool end_array() { return close(); }
  bool key(string_t& name) {
    Level& level = levels_.back();
    if (!level.keys.insert(name).second)
      return fail(fmt::format("the key '{}' stands twice", name));
    level.key = std::move(name);
    return true;
  }
  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception&) {
    return fail(fmt::format("it is no valid JSON at byte {}", position));
  }

  [[nodiscard]] const std::string& error() const { return error_; }

 private:
  struct Level {
    Json* container;
    std::string key;  // of the next value in an object
    std::unordered_set<std::string> keys;
  };

  template <class T>
  Json* add(T&& value) {
    if (++n_values_ > limits_.n_values) {
      fail(fmt::format("it has more than {} values", limits_.n_values));
      return nullptr;
    }
    if (levels_.empty()) {
      root_ = Json(std::forward<T>(value));
      return &root_;
    }
    Level& level = levels_.back();
    if (level.container->is_array()) {
      level.container->push_back(Json(std::forward<T>(value)));
      return &level.container->back();
    }
    // Below ordered_json's own insertion, which would look for the key again.
    auto& members = *level.container->get_ptr<Json::object_t*>();
    members.Container::emplace_back(std::move(level.key), Json(std::forward<T>(value)));
    return &members.back().second;
  }

  bool open(Json container) {
    if (levels_.size() == limits_.depth) {
      return fail(fmt::format("it nests deeper than {} levels", limits_.depth));
    }
    Json* added = add(std::move(container));
    if (added == nullptr) return false;
    levels_.push_back({added, {}, {}});
    return true;
  }
  bool close() {
    levels_.pop_back();
    return true;
  }
  bool fail(std::string error) {
    if (error_.empty()) error_ = std::move(error);
    return false;
  }

  const JsonLimits& limits_;
  Json& root_;
  std::vector<Level> levels_;
  size_t n_values_ = 0;
  std::string error_;
};

}  // namespace

Result<Json> parse_json(std::string_view text, const JsonLimits& limits) {
  Json root;
  TreeBuilder builder(limits, root);
  if (!Json::sax_parse(text, &builder)) return invalid_argument(builder.error());
  return root;
}

}  // namespace bp::server
