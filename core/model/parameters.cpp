#include "core/model/parameters.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "backplane/json_metadata.hpp"

namespace bp::model {

namespace {

// Elements of one metadata value as T, or the scalar that it is.
template <class T, class As = T>
Result<Value> typed_value(const bp_metadata& entry, bool list_allowed) {
  const MetadataView one({&entry, 1});
  const std::string_view key = metadata_detail::view(entry.key);
  if (entry.is_array == 0 || !list_allowed) {
    BP_ASSIGN(const T scalar, one.get<T>(key));
    return Value(As(scalar));
  }
  BP_ASSIGN(const auto array, one.array<T>(key));
  List list;
  for (uint64_t i = 0; i < array.size(); ++i) list.emplace_back(As(array[i]));
  return Value(std::move(list));
}

// Reads parameters in the order in which they need each other, being itself the scope of their
// expressions.
class ParameterReader : public Scope {
 public:
  ParameterReader(const ModelFile& file, const ArchitectureChoice& choice, ModelScope& scope)
      : file_(file), choice_(choice), scope_(scope) {}

  Status read(const ParameterSpec& spec) const {
    if (scope_.find(spec.name)) return {};
    if (!open_.insert(spec.name).second) return error(spec, "its default needs itself");
    const auto layer = scope_.values.extract("i");  // of the parameter that asks for this one
    Status status = read_value(spec);
    if (!layer.empty()) scope_.values["i"] = layer.mapped();
    open_.erase(spec.name);
    return status;
  }

  [[nodiscard]] std::optional<Value> find(std::string_view name) const override {
    if (auto value = scope_.find(name)) return value;
    const auto& specs = choice_.architecture.parameters;
    const auto named = [&](const ParameterSpec& spec) { return spec.name == name; };
    const auto spec = std::find_if(specs.begin(), specs.end(), named);
    if (spec == specs.end() || !failure_.ok()) return std::nullopt;
    failure_ = read(*spec);
    return scope_.find(name);
  }
  [[nodiscard]] std::optional<Value> query(std::string_view function,
                                           std::string_view name) const override {
    if (function == "has") static_cast<void>(find(name));
    return scope_.query(function, name);
  }

 private:
  // A failure of what the expression asked for says more than that it is unknown.
  Result<Value> evaluate(const PlacedExpression& expression) const {
    auto value = expression.evaluate(*this);
    return failure_.ok() ? value : Result<Value>(failure_);
  }

  Status read_value(const ParameterSpec& spec) const {
    auto value = value_of(spec);
    if (!failure_.ok()) return failure_;
    if (!value.ok()) return error(spec, value.status().message());
    if (spec.per_layer) value = per_layer(*std::move(value));
    if (!value.ok()) return error(spec, value.status().message());
    if (const Status status = check(spec, *value); !status.ok()) {
      return error(spec, status.message());
    }
    scope_.values[spec.name] = *std::move(value);
    return {};
  }

  [[nodiscard]] Status error(const ParameterSpec& spec, const std::string& message) const {
    const auto key = scope_.keys.find(spec.name);
    const bool names_key = key == scope_.keys.end() || message.starts_with("metadata ");
    return invalid_argument(fmt::format(
        "{}: hyper-parameter {} ({}): {}{}", file_.path(), spec.name, spec.place.place(),
        names_key ? "" : "metadata \"" + key->second + "\": ", message));
  }

  [[nodiscard]] std::vector<std::string> keys_of(const ParameterSpec& spec) const {
    std::vector<std::string> keys;
    const auto names = spec.keys.find(file_.dialect());
    if (names == spec.keys.end()) return keys;
    for (const std::string& key : names->second) {
      keys.push_back(replace_all(key, "{arch}", choice_.name));
    }
    return keys;
  }

  Result<Value> value_of(const ParameterSpec& spec) const {
    const auto keys = keys_of(spec);
    for (const std::string& key : keys) {
      const bp_metadata* entry = file_.find_metadata(key);
      if (entry != nullptr) {
        scope_.keys[spec.name] = key;
        return read_entry(spec, *entry);
      }
      if (file_.dialect() == "huggingface") BP_TRY(check_absent(file_.metadata(), key));
    }
    if (spec.if_null && std::ranges::any_of(keys, [&](auto& key) { return file_.is_null(key); })) {
      return default_value(spec, *spec.if_null);
    }
    if (spec.fallback) return default_value(spec, *spec.fallback);
    return invalid_argument(
        fmt::format("missing; keys tried: {}",
                    keys.empty() ? "none" : fmt::format("{}", fmt::join(keys, ", "))));
  }

  // Where it is per_layer one of each layer, whose index i the expression sees; a list gives its
  // element i.
  Result<Value> default_value(const ParameterSpec& spec, const PlacedExpression& expression) const {
    if (!spec.per_layer) return evaluate(expression);
    BP_ASSIGN(const size_t n, n_layers());
    List list;
    for (size_t i = 0; i < n; ++i) {
      scope_.values["i"] = static_cast<int64_t>(i);
      auto value = evaluate(expression);
      scope_.values.erase("i");
      if (!value.ok()) return value;
      if (value->is_list() && value->list().size() == n) value = Value(value->list()[i]);
      list.push_back(*std::move(value));
    }
    return Value(std::move(list));
  }

  static Result<Value> read_entry(const ParameterSpec& spec, const bp_metadata& entry) {
    const bool has_list = spec.per_layer || spec.is_list;
    switch (spec.type) {
      case ParameterType::kInt:
        if (entry.type == BP_META_STRING && !spec.values.empty()) return number_for(spec, entry);
        return typed_value<int64_t>(entry, has_list);
      case ParameterType::kFloat:
        return typed_value<double>(entry, has_list);
      case ParameterType::kBool:
        return typed_value<bool>(entry, has_list);
      case ParameterType::kString:
        break;
    }
    BP_ASSIGN(const Value value, (typed_value<std::string_view, std::string>(entry, has_list)));
    return translated(spec, value);
  }

  // A text that stands for an integer.
  static Result<Value> number_for(const ParameterSpec& spec, const bp_metadata& entry) {
    BP_ASSIGN(const Value text, (typed_value<std::string_view, std::string>(entry, false)));
    BP_ASSIGN(const Value meant, translated(spec, text));
    const std::string& digits = *meant.as_string();
    int64_t number = 0;
    const char* end = digits.data() + digits.size();
    if (std::from_chars(digits.data(), end, number).ptr == end) return Value(number);
    return invalid_argument(
        fmt::format("'{}' stands for '{}', which is no integer", *text.as_string(), digits));
  }

  static Result<Value> translated(const ParameterSpec& spec, const Value& value) {
    if (spec.values.empty()) return value;
    if (value.is_list()) {
      List list;
      for (const Value& element : value.list()) {
        BP_ASSIGN(Value one, translated(spec, element));
        list.push_back(std::move(one));
      }
      return Value(std::move(list));
    }
    const auto it = spec.values.find(*value.as_string());
    if (it != spec.values.end()) return Value(it->second);
    std::vector<std::string> known;
    for (const auto& [from, to] : spec.values) known.push_back(from);
    return unsupported(
        fmt::format("{} is not supported (supported: {})", value.text(), fmt::join(known, ", ")));
  }

  Result<size_t> n_layers() const {
    const auto value = find("n_layers");
    const auto n = value ? value->as_int() : std::nullopt;
    if (!n) return invalid_argument("per_layer needs the integer n_layers");
    return static_cast<size_t>(*n);
  }

  Result<Value> per_layer(Value value) const {
    BP_ASSIGN(const size_t n, n_layers());
    if (!value.is_list()) return Value(List(n, value));
    if (value.list().size() == n) return value;
    return invalid_argument(fmt::format("has {} elements, expected one for each of the {} layers",
                                        value.list().size(), n));
  }

  Status check(const ParameterSpec& spec, const Value& value) const {
    if (value.is_list()) {
      for (size_t i = 0; i < value.list().size(); ++i) {
        const Status status = check(spec, value.list()[i]);
        if (!status.ok()) return status.with_context(fmt::format("element {}", i));
      }
      return {};
    }
    if (value.is_none()) return {};
    return check_scalar(spec, value);
  }

  Status check_scalar(const ParameterSpec& spec, const Value& value) const {
    BP_TRY(check_type(spec, value));
    const auto x = value.as_number();
    if (!x) return {};
    BP_ASSIGN(const auto min, bound(spec.min));
    BP_ASSIGN(const auto max, bound(spec.max));
    if ((min ? *x >= *min : *x > 0) && (!max || *x <= *max)) return {};
    std::string range = min ? fmt::format("at least {}", *min) : "positive";
    if (max) range += fmt::format(" and at most {}", *max);
    return invalid_argument(fmt::format("must be {}, found {}", range, value.text()));
  }

  Result<std::optional<double>> bound(const std::optional<PlacedExpression>& expression) const {
    if (!expression) return std::optional<double>();
    BP_ASSIGN(const double number, expression->number(*this));
    return std::optional(number);
  }

  // Of defaults, whose expressions can have any type.
  static Status check_type(const ParameterSpec& spec, const Value& value) {
    bool fits = false;
    switch (spec.type) {
      case ParameterType::kInt:
        fits = value.as_int().has_value();
        break;
      case ParameterType::kFloat:
        fits = value.as_number().has_value();
        break;
      case ParameterType::kBool:
        fits = value.as_bool().has_value();
        break;
      case ParameterType::kString:
        fits = value.as_string() != nullptr;
        break;
    }
    if (fits) return {};
    return invalid_argument(
        fmt::format("its default {} has the wrong type ({})", value.text(), value.type_name()));
  }

  const ModelFile& file_;
  const ArchitectureChoice& choice_;
  ModelScope& scope_;
  mutable std::set<std::string, std::less<>> open_;  // being read
  mutable Status failure_;                           // of a parameter that another one needs
};

// "n_heads = [8, 8], i = 1": the values behind the words of a check.
std::string values_in(const std::string& text, const ModelScope& scope) {
  std::vector<std::string> shown;
  for (const auto& [name, value] : scope.values) {
    const size_t at = text.find(name);
    if (at == std::string::npos) continue;
    const auto is_word = [&](size_t k) {
      return k < text.size() &&
             (std::isalnum(static_cast<unsigned char>(text[k])) || text[k] == '_');
    };
    if ((at > 0 && is_word(at - 1)) || is_word(at + name.size())) continue;
    const auto key = scope.keys.find(name);
    shown.push_back(fmt::format("{} = {}{}", name, value.text(),
                                key == scope.keys.end() ? "" : " (" + key->second + ")"));
  }
  return fmt::format("{}", fmt::join(shown, ", "));
}

}  // namespace

std::string replace_all(std::string text, const std::string& pattern, const std::string& with) {
  for (size_t at = text.find(pattern); at != std::string::npos;
       at = text.find(pattern, at + with.size())) {
    text.replace(at, pattern.size(), with);
  }
  return text;
}

ModelScope::ModelScope(const ModelFile& file, const Architecture& architecture)
    : file_(file), architecture_(architecture) {
  values["dialect"] = std::string(file.dialect());
}

std::optional<Value> ModelScope::find(std::string_view name) const {
  const auto it = values.find(name);
  return it == values.end() ? std::nullopt : std::optional(it->second);
}

std::optional<Value> ModelScope::query(std::string_view function, std::string_view name) const {
  if (function == "has") return has(name);
  if (function == "rows") return rows(name);
  return std::nullopt;
}

std::optional<Value> ModelScope::has(std::string_view name) const {
  if (const auto value = find(name)) return Value(!value->is_none());
  if (weights == nullptr) return std::nullopt;
  const auto it = weights->find(std::string(name));
  return it == weights->end() ? std::nullopt : std::optional<Value>(it->second != BP_NONE);
}

std::optional<Value> ModelScope::rows(std::string_view weight) const {
  for (const WeightSpec& spec : architecture_.weights) {
    const auto sources = spec.sources.find(file_.dialect());
    if (spec.name != weight || sources == spec.sources.end()) continue;
    for (const TensorSource& source : sources->second) {
      const bp_tensor* tensor = file_.find_tensor(source.name);
      if (tensor == nullptr || tensor->n_dims == 0 || tensor->dims[0] > INT64_MAX) continue;
      return Value(static_cast<int64_t>(tensor->dims[0]));
    }
  }
  return std::nullopt;
}

Status run_checks(const std::vector<PlacedExpression>& checks, const ModelFile& file,
                  const ModelScope& scope) {
  for (const PlacedExpression& check : checks) {
    BP_ASSIGN(const bool holds, check.condition(scope));
    if (holds) continue;
    const std::string& text = check.expression.text();
    return invalid_argument(fmt::format("{}: does not satisfy `{}` ({}) with {}", file.path(), text,
                                        check.place.place(), values_in(text, scope)));
  }
  return {};
}

Status read_parameters(const ModelFile& file, const ArchitectureChoice& choice, ModelScope& scope) {
  ParameterReader reader(file, choice, scope);
  for (const ParameterSpec& spec : choice.architecture.parameters) BP_TRY(reader.read(spec));
  return run_checks(choice.architecture.checks, file, scope);
}

}  // namespace bp::model
