#include "formats/huggingface/metadata.hpp"

#include <bit>
#include <utility>

#include "backplane/json_metadata.hpp"
#include "backplane/plugin.hpp"
#include "backplane/text.hpp"
#include "formats/huggingface/files.hpp"
#include "formats/huggingface/limits.hpp"

namespace bp::huggingface {

namespace {

template <class T>
T number_as(const JsonNumber& number) {
  return std::visit([](auto value) { return static_cast<T>(value); }, number);
}

// BP_META_* that holds all of the numbers.
uint32_t common_type(const std::vector<JsonNumber>& numbers) {
  bool is_signed = false, is_large = false;
  for (const JsonNumber& number : numbers) {
    if (std::holds_alternative<double>(number)) return BP_META_F64;
    is_signed = is_signed || std::holds_alternative<int64_t>(number);
    const uint64_t* whole = std::get_if<uint64_t>(&number);
    is_large = is_large || (whole != nullptr && *whole > INT64_MAX);
  }
  if (is_signed && is_large) return BP_META_F64;
  return is_signed ? BP_META_I64 : BP_META_U64;
}

// How a value begins, for an error message.
std::string excerpt(std::string_view json) {
  constexpr size_t kMaxBytes = 48;
  std::string out;
  for (const char c : json.substr(0, 1024)) {
    if (out.size() == kMaxBytes) return out + "...";
    if (c > ' ') out += c < '\x7f' ? c : '?';
  }
  return out;
}

class JsonFlattener {
 public:
  JsonFlattener(JsonReader& json, Metadata& metadata) : json_(json), metadata_(metadata) {}

  void object(const std::string& prefix) {
    std::string name;
    for (json_.enter_object(); json_.next_member(name);) member(prefix + name);
  }

 private:
  void member(const std::string& key) {
    switch (json_.peek()) {
      case JsonKind::kObject: {
        const size_t begin = json_.position();
        object(key + ".");
        return metadata_.add_untyped(key, json_.text_from(begin));
      }
      case JsonKind::kArray:
        return array(key);
      case JsonKind::kString:
        return added(key, metadata_.add_string(key, json_.read_string()));
      case JsonKind::kNumber:
        return added(key, metadata_.add_number(key, json_.read_number()));
      case JsonKind::kBool:
        return added(key, metadata_.add_bools(key, {json_.read_bool()}, false));
      case JsonKind::kNull:
        metadata_.add_null(key);
        [[fallthrough]];
      case JsonKind::kNothing:
        return json_.skip_value();
    }
  }

  void array(const std::string& key) {
    std::vector<JsonNumber> numbers;
    std::vector<std::string> strings;
    std::vector<bool> bools;
    bool is_other = false;
    const size_t begin = json_.position();
    for (json_.enter_array(); json_.next_element();) {
      const JsonKind kind = json_.peek();
      if (kind == JsonKind::kNumber) {
        numbers.push_back(json_.read_number());
      } else if (kind == JsonKind::kString) {
        strings.push_back(json_.read_string());
      } else if (kind == JsonKind::kBool) {
        bools.push_back(json_.read_bool());
      } else {
        is_other = true;
        json_.skip_value();
      }
    }
    const int n_kinds = !numbers.empty() + !strings.empty() + !bools.empty() + is_other;
    if (n_kinds > 1 || is_other) return metadata_.add_untyped(key, json_.text_from(begin));
    if (!json_.ok()) return;
    if (!strings.empty()) return added(key, metadata_.add_strings(key, std::move(strings)));
    if (!bools.empty()) return added(key, metadata_.add_bools(key, bools, true));
    added(key, metadata_.add_numbers(key, numbers));
  }

  void added(const std::string& key, bool done) {
    json_.require(done, "key " + quote(key) + " stands twice, or there are more than " +
                            std::to_string(kMaxKeyValues) + " keys");
  }

  JsonReader& json_;
  Metadata& metadata_;
};

}  // namespace

bool Metadata::add(const std::string& key, uint32_t type, bool is_array, uint64_t n,
                   const void* data) {
  if (keys_.size() >= kMaxKeyValues) return false;
  const auto [at, is_new] = keys_.insert(key);
  if (!is_new) return false;
  entries_.push_back({to_bp_str(*at), type, is_array ? 1u : 0u, n, data});
  return true;
}

bool Metadata::add_strings(const std::string& key, std::vector<std::string> values, bool is_array) {
  std::vector<bp_str>& strings = strings_.emplace_back();
  for (std::string& value : values) {
    strings.push_back(to_bp_str(texts_.emplace_back(std::move(value))));
  }
  return add(key, BP_META_STRING, is_array, strings.size(), strings.data());
}

bool Metadata::add_numbers(const std::string& key, const std::vector<JsonNumber>& values,
                           bool is_array) {
  const uint32_t type = common_type(values);
  std::vector<uint64_t>& words = words_.emplace_back();
  for (const JsonNumber& value : values) {
    if (type == BP_META_F64) {
      words.push_back(std::bit_cast<uint64_t>(number_as<double>(value)));
    } else {
      words.push_back(number_as<uint64_t>(value));
    }
  }
  return add(key, type, is_array, words.size(), words.data());
}

bool Metadata::add_string(const std::string& key, std::string value) {
  std::vector<std::string> one;
  one.push_back(std::move(value));
  return add_strings(key, std::move(one), false);
}

bool Metadata::add_strings(const std::string& key, std::vector<std::string> values) {
  return add_strings(key, std::move(values), true);
}

bool Metadata::add_number(const std::string& key, JsonNumber value) {
  return add_numbers(key, {value}, false);
}

bool Metadata::add_numbers(const std::string& key, const std::vector<JsonNumber>& values) {
  return add_numbers(key, values, true);
}

bool Metadata::add_bools(const std::string& key, const std::vector<bool>& values, bool is_array) {
  std::vector<uint8_t>& bytes = bytes_.emplace_back(values.begin(), values.end());
  return add(key, BP_META_BOOL, is_array, bytes.size(), bytes.data());
}

void Metadata::add_untyped(std::string key, std::string_view json) {
  untyped_keys_.push_back(std::move(key));
  untyped_values_.push_back(excerpt(json));
}

bool Metadata::list_others() {
  const auto list = [&](std::string_view key, std::vector<std::string>& texts) {
    return texts.empty() || add_strings(std::string(key), std::move(texts));
  };
  return list(kNullKeys, nulls_) && list(kUntypedKeys, untyped_keys_) &&
         list(kUntypedValues, untyped_values_);
}

Status add_json(const std::string& path, std::string_view text, const std::string& prefix,
                Metadata& metadata) {
  JsonReader json(text);
  JsonFlattener(json, metadata).object(prefix);
  json.expect_end();
  return json.ok() ? Status() : invalid(path, json.fault());
}

}  // namespace bp::huggingface
