#include "core/server/field_reader.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

namespace bp::server {

using Json = nlohmann::ordered_json;

namespace {

constexpr size_t kMaxFields = 256;

}  // namespace

FieldReader::FieldReader(const Json& object, std::string path) : path_(std::move(path)) {
  const std::string place = path_.empty() ? "the body" : path_.substr(0, path_.size() - 1);
  const std::string param = path_.empty() ? "" : place;
  if (!object.is_object()) {
    refuse({400, place + " must be a JSON object", param, {}});
    return;
  }
  if (object.size() > kMaxFields) {
    refuse({400, fmt::format("{} has more than {} fields", place, kMaxFields), param, {}});
    return;
  }
  for (const auto& [name, value] : object.items()) {
    if (value.is_null()) continue;
    names_.push_back(name);
    fields_.emplace(name, Field{&value});
  }
}

bool FieldReader::has(const std::string& name) const {
  return fields_.contains(name);
}

bool FieldReader::has_unread(const std::string& name) const {
  const auto it = fields_.find(name);
  return it != fields_.end() && !it->second.asked_for;
}

const Json* FieldReader::any(const std::string& name) {
  const auto it = fields_.find(name);
  if (it == fields_.end()) return nullptr;
  it->second.asked_for = true;
  return ok() ? it->second.value : nullptr;
}

std::optional<int64_t> FieldReader::integer(const std::string& name, int64_t min, int64_t max) {
  const Json* value = any(name);
  if (value == nullptr) return std::nullopt;
  const bool too_large = value->is_number_unsigned() && value->get<uint64_t>() > INT64_MAX;
  if (!value->is_number_integer()) {
    refuse(name, "must be a whole number");
  } else if (too_large || value->get<int64_t>() < min || value->get<int64_t>() > max) {
    refuse(name, fmt::format("must be from {} to {}", min, max));
  }
  return ok() ? std::optional(value->get<int64_t>()) : std::nullopt;
}

std::optional<double> FieldReader::number(const std::string& name, double min, double max) {
  const Json* value = any(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number()) {
    refuse(name, "must be a number");
  } else if (value->get<double>() < min || value->get<double>() > max) {
    refuse(name, fmt::format("must be from {} to {}", min, max));
  }
  return ok() ? std::optional(value->get<double>()) : std::nullopt;
}

std::optional<bool> FieldReader::boolean(const std::string& name) {
  const Json* value = any(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) refuse(name, "must be true or false");
  return ok() ? std::optional(value->get<bool>()) : std::nullopt;
}

std::optional<std::string> FieldReader::text(const std::string& name, size_t max_bytes) {
  const Json* value = any(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) {
    refuse(name, "must be a string");
  } else if (value->get_ref<const std::string&>().size() > max_bytes) {
    refuse(name, fmt::format("must have at most {} bytes", max_bytes));
  }
  return ok() ? std::optional(value->get<std::string>()) : std::nullopt;
}

const Json* FieldReader::array(const std::string& name, size_t max_size) {
  const Json* value = any(name);
  if (value == nullptr) return nullptr;
  if (!value->is_array()) {
    refuse(name, "must be an array");
  } else if (value->size() > max_size) {
    refuse(name, fmt::format("must have at most {} entries", max_size));
  }
  return ok() ? value : nullptr;
}

const Json* FieldReader::object(const std::string& name, size_t max_size) {
  const Json* value = any(name);
  if (value == nullptr) return nullptr;
  if (!value->is_object()) {
    refuse(name, "must be an object");
  } else if (value->size() > max_size) {
    refuse(name, fmt::format("must have at most {} entries", max_size));
  }
  return ok() ? value : nullptr;
}

std::optional<std::vector<int32_t>> FieldReader::ids(const std::string& name, size_t max_size,
                                                     uint32_t n_vocab) {
  const Json* value = array(name, max_size);
  if (value == nullptr) return std::nullopt;
  std::string error;
  auto ids = read_ids(*value, n_vocab, error);
  if (!ids) refuse(name, error);
  return ids;
}

void FieldReader::refuse(const std::string& name, const std::string& what) {
  refuse({400, fmt::format("'{}{}' {}", path_, name, what), path_ + name, {}});
}

void FieldReader::refuse(Refusal refusal) {
  if (ok()) refusal_ = std::move(refusal);
}

void FieldReader::finish() {
  for (const std::string& name : names_) {
    if (!fields_.at(name).asked_for) return refuse(name, "is not supported");
  }
}

std::optional<std::vector<int32_t>> read_ids(const Json& array, uint32_t n_vocab,
                                             std::string& error) {
  std::vector<int32_t> ids;
  ids.reserve(array.size());
  for (const Json& value : array) {
    const bool is_id = value.is_number_unsigned() && value.get<uint64_t>() < n_vocab;
    if (!is_id) {
      error = fmt::format("must hold token ids from 0 to {}", n_vocab - 1);
      return std::nullopt;
    }
    ids.push_back(value.get<int32_t>());
  }
  return ids;
}

}  // namespace bp::server
