#pragma once
// YAML nodes that know their file, so that every error names file, line, column and key.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backplane/status.hpp"

namespace YAML {
class Node;
}

namespace bp::base {

class Yaml {
 public:
  // At most 4 MiB. An empty document is an empty map.
  static Result<Yaml> load_file(const std::string& path);
  static Result<Yaml> load_text(const std::string& text, const std::string& file_name);

  // "FILE:LINE:COLUMN: KEY: message" as INVALID_ARGUMENT.
  [[nodiscard]] Status error(const std::string& message) const;
  // "FILE:LINE".
  [[nodiscard]] std::string place() const;
  // Dotted path from the document's root: "models[0].backend.kv".
  [[nodiscard]] const std::string& key() const { return key_; }

  [[nodiscard]] bool is_map() const;
  [[nodiscard]] bool is_list() const;
  [[nodiscard]] bool is_scalar() const;
  [[nodiscard]] bool is_null() const;
  [[nodiscard]] bool is_quoted() const;  // a scalar written in quotes is never a number or bool

  // Members of a map in order; an error where it is not one, or a key is repeated or no plain
  // scalar.
  Result<std::vector<std::pair<std::string, Yaml>>> members() const;
  Result<std::vector<Yaml>> items() const;
  // Nullopt where this is not a map or the key is absent or null.
  [[nodiscard]] std::optional<Yaml> find(const std::string& name) const;
  // An error that names the first key not in `known`, and the nearest that is.
  Status expect_keys(const std::vector<std::string>& known) const;

  // Scalars. Strings have ${NAME} replaced from the environment; an unset one is an error.
  Result<std::string> as_string() const;
  Result<int64_t> as_int(int64_t min, int64_t max) const;
  Result<double> as_float() const;
  Result<bool> as_bool() const;
  Result<std::vector<std::string>> as_strings() const;  // a list of strings

 private:
  Yaml(std::shared_ptr<const YAML::Node> node, std::shared_ptr<const std::string> file,
       std::string key);
  [[nodiscard]] Yaml child(const YAML::Node& node, const std::string& key) const;

  std::shared_ptr<const YAML::Node> node_;
  std::shared_ptr<const std::string> file_;
  std::string key_;
};

}  // namespace bp::base
