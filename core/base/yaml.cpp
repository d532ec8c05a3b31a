#include "core/base/yaml.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <set>

#include <fmt/format.h>
#include <yaml-cpp/depthguard.h>
#include <yaml-cpp/yaml.h>

#include "core/base/nearest.hpp"
#include "core/base/read_file.hpp"

namespace bp::base {

namespace {

constexpr size_t kLargestFile = 4u << 20;

Result<std::string> expand_environment(const std::string& text) {
  std::string out;
  size_t at = 0;
  while (true) {
    const size_t open = text.find("${", at);
    if (open == std::string::npos) return out + text.substr(at);
    const size_t close = text.find('}', open);
    if (close == std::string::npos) return invalid_argument("'${' without a closing '}'");
    const std::string name = text.substr(open + 2, close - open - 2);
    const char* value = std::getenv(name.c_str());
    if (value == nullptr) {
      return invalid_argument(fmt::format("environment variable '{}' is not set", name));
    }
    out += text.substr(at, open - at) + value;
    at = close + 1;
  }
}

// The library calls nesting too deep a "bad file".
std::string reason_of(const YAML::Exception& error) {
  const bool is_deep = dynamic_cast<const YAML::DeepRecursion*>(&error) != nullptr;
  return is_deep ? "maps and lists stand too deep in one another" : error.msg;
}

}  // namespace

Yaml::Yaml(std::shared_ptr<const YAML::Node> node, std::shared_ptr<const std::string> file,
           std::string key)
    : node_(std::move(node)), file_(std::move(file)), key_(std::move(key)) {}

Yaml Yaml::child(const YAML::Node& node, const std::string& key) const {
  return {std::make_shared<const YAML::Node>(node), file_, key};
}

Result<Yaml> Yaml::load_file(const std::string& path) {
  BP_ASSIGN(const std::string text, read_file(path, kLargestFile));
  return load_text(text, path);
}

Result<Yaml> Yaml::load_text(const std::string& text, const std::string& file_name) {
  try {
    const std::vector<YAML::Node> documents = YAML::LoadAll(text);
    auto node = std::make_shared<const YAML::Node>(documents.empty() ? YAML::Node() : documents[0]);
    Yaml yaml(std::move(node), std::make_shared<const std::string>(file_name), "");
    if (documents.size() < 2) return yaml;
    return yaml.child(documents[1], "").error("a file has one document, and here begins another");
  } catch (const YAML::Exception& e) {
    return invalid_argument(
        fmt::format("{}:{}:{}: {}", file_name, e.mark.line + 1, e.mark.column + 1, reason_of(e)));
  }
}

std::string Yaml::place() const {
  return fmt::format("{}:{}", *file_, std::max(node_->Mark().line, 0) + 1);
}

Status Yaml::error(const std::string& message) const {
  const YAML::Mark mark = node_->Mark();  // -1, -1 for an empty document
  const int line = std::max(mark.line, 0) + 1;
  const int column = std::max(mark.column, 0) + 1;
  const std::string subject = key_.empty() ? std::string() : key_ + ": ";
  return invalid_argument(fmt::format("{}:{}:{}: {}{}", *file_, line, column, subject, message));
}

bool Yaml::is_map() const {
  return node_->IsMap();
}
bool Yaml::is_list() const {
  return node_->IsSequence();
}
bool Yaml::is_scalar() const {
  return node_->IsScalar();
}
bool Yaml::is_null() const {
  return node_->IsNull();
}
bool Yaml::is_quoted() const {
  return node_->IsScalar() && node_->Tag() == "!";
}

Result<std::vector<std::pair<std::string, Yaml>>> Yaml::members() const {
  std::vector<std::pair<std::string, Yaml>> out;
  if (is_null()) return out;
  if (!is_map()) return error("must be a map of keys and values");
  std::set<std::string> seen;
  for (const auto& entry : *node_) {
    if (!entry.first.IsScalar()) return child(entry.first, key_).error("a key must be plain text");
    const std::string name = entry.first.Scalar();
    Yaml value = child(entry.second, key_.empty() ? name : key_ + "." + name);
    if (!seen.insert(name).second) {
      return child(entry.first, value.key()).error("is given twice");
    }
    out.emplace_back(name, std::move(value));
  }
  return out;
}

Result<std::vector<Yaml>> Yaml::items() const {
  std::vector<Yaml> out;
  if (!is_list()) return error("must be a list");
  for (size_t i = 0; i < node_->size(); ++i) {
    out.push_back(child((*node_)[i], fmt::format("{}[{}]", key_, i)));
  }
  return out;
}

std::optional<Yaml> Yaml::find(const std::string& name) const {
  if (!is_map()) return std::nullopt;
  const YAML::Node found = (*node_)[name];
  if (!found.IsDefined() || found.IsNull()) return std::nullopt;
  return child(found, key_.empty() ? name : key_ + "." + name);
}

Status Yaml::expect_keys(const std::vector<std::string>& known) const {
  if (is_null()) return {};
  if (!is_map()) return error("must be a map of keys and values");
  for (const auto& entry : *node_) {
    const std::string name = entry.first.IsScalar() ? entry.first.Scalar() : "?";
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    const std::string path = key_.empty() ? name : key_ + "." + name;
    return child(entry.first, path).error("unknown key" + nearest_hint(name, known));
  }
  BP_TRY(members().status());
  return {};
}

Result<std::string> Yaml::as_string() const {
  if (!is_scalar()) return error("must be text");
  auto expanded = expand_environment(node_->Scalar());
  if (!expanded.ok()) return error(expanded.status().message());
  return expanded;
}

Result<int64_t> Yaml::as_int(int64_t min, int64_t max) const {
  BP_ASSIGN(const std::string text, as_string());
  int64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool number = code == std::errc() && end == text.data() + text.size() && !text.empty();
  if (!number || is_quoted()) return error(fmt::format("must be a whole number, not '{}'", text));
  if (value < min || value > max) {
    return error(fmt::format("must be from {} to {}, not {}", min, max, value));
  }
  return value;
}

Result<double> Yaml::as_float() const {
  BP_ASSIGN(const std::string text, as_string());
  double value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool number = code == std::errc() && end == text.data() + text.size();
  if (!number || is_quoted() || !std::isfinite(value)) {
    return error(fmt::format("must be a number, not '{}'", text));
  }
  return value;
}

Result<bool> Yaml::as_bool() const {
  BP_ASSIGN(const std::string text, as_string());
  if (!is_quoted() && (text == "true" || text == "yes" || text == "on")) return true;
  if (!is_quoted() && (text == "false" || text == "no" || text == "off")) return false;
  return error(fmt::format("must be true or false, not '{}'", text));
}

Result<std::vector<std::string>> Yaml::as_strings() const {
  BP_ASSIGN(const std::vector<Yaml> nodes, items());
  std::vector<std::string> out;
  for (const Yaml& node : nodes) {
    BP_ASSIGN(std::string text, node.as_string());
    out.push_back(std::move(text));
  }
  return out;
}

}  // namespace bp::base
