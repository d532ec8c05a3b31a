#pragma once
// Writes GGUF files for tests, valid ones and deliberately broken ones.

#include <cstdint>
#include <cstring>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace bp::test {

// Little-endian bytes appended one after another.
class GgufBytes {
 public:
  template <class T>
  GgufBytes& put(T value) {
    static_assert(std::is_arithmetic_v<T>);
    char raw[sizeof(T)];
    std::memcpy(raw, &value, sizeof value);
    bytes_.append(raw, sizeof raw);
    return *this;
  }
  GgufBytes& raw(std::string_view bytes) { return bytes_.append(bytes), *this; }
  // A 64-bit length and the bytes.
  GgufBytes& string(std::string_view text) { return put<uint64_t>(text.size()).raw(text); }

  [[nodiscard]] const std::string& str() const { return bytes_; }
  [[nodiscard]] size_t size() const { return bytes_.size(); }

 private:
  std::string bytes_;
};

// The number of a metadata value type.
template <class T>
constexpr uint32_t gguf_value_type() {
  if constexpr (std::is_same_v<T, uint8_t>) return 0;
  if constexpr (std::is_same_v<T, int8_t>) return 1;
  if constexpr (std::is_same_v<T, uint16_t>) return 2;
  if constexpr (std::is_same_v<T, int16_t>) return 3;
  if constexpr (std::is_same_v<T, uint32_t>) return 4;
  if constexpr (std::is_same_v<T, int32_t>) return 5;
  if constexpr (std::is_same_v<T, float>) return 6;
  if constexpr (std::is_same_v<T, bool>) return 7;
  if constexpr (std::is_convertible_v<T, std::string_view>) return 8;
  if constexpr (std::is_same_v<T, uint64_t>) return 10;
  if constexpr (std::is_same_v<T, int64_t>) return 11;
  if constexpr (std::is_same_v<T, double>) return 12;
}
inline constexpr uint32_t kGgufString = 8;
inline constexpr uint32_t kGgufArray = 9;

struct GgufTensor {
  std::string name;
  std::vector<uint64_t> dims;  // outermost first
  uint32_t type = 0;           // ggml's number; 0 is f32
  std::string data;
  std::optional<uint64_t> offset =
      std::nullopt;  // relative to the data; packed in order when absent
};

class GgufBuilder {
 public:
  GgufBuilder& magic(std::string bytes) { return magic_ = std::move(bytes), *this; }
  GgufBuilder& version(uint32_t v) { return version_ = v, *this; }
  // Counts in the header, where they are not to be those of the entries added.
  GgufBuilder& n_tensors(uint64_t n) { return n_tensors_ = n, *this; }
  GgufBuilder& n_kv(uint64_t n) { return n_kv_ = n, *this; }
  // Of the data that is written; set("general.alignment", ...) is what the file says.
  GgufBuilder& alignment(uint64_t bytes) { return alignment_ = bytes, *this; }
  // Leaves out the padding before the first tensor's data and all data.
  GgufBuilder& without_data() { return write_data_ = false, *this; }

  template <class T>
  GgufBuilder& set(std::string_view key, const T& value) {
    entry(key).put<uint32_t>(gguf_value_type<T>());
    put_value(value);
    return *this;
  }
  template <class T>
  GgufBuilder& set_array(std::string_view key, const std::vector<T>& values) {
    entry(key).put<uint32_t>(kGgufArray).template put<uint32_t>(gguf_value_type<T>());
    metadata_.put<uint64_t>(values.size());
    for (const T& value : values) put_value(value);
    return *this;
  }
  // A key followed by bytes as they are: value type and value.
  GgufBuilder& set_raw(std::string_view key, const GgufBytes& value) {
    return entry(key).raw(value.str()), *this;
  }

  GgufBuilder& tensor(GgufTensor t) { return tensors_.push_back(std::move(t)), *this; }
  GgufBuilder& f32_tensor(std::string name, std::vector<uint64_t> dims,
                          const std::vector<float>& values) {
    const auto* raw = reinterpret_cast<const char*>(values.data());
    return tensor({std::move(name), std::move(dims), 0, {raw, values.size() * sizeof(float)}});
  }
  // A tensor table entry as it is.
  GgufBuilder& raw_tensor_info(const GgufBytes& info) {
    return raw_infos_.raw(info.str()), ++n_raw_infos_, *this;
  }

  [[nodiscard]] std::string bytes() const {
    GgufBytes infos;
    GgufBytes data;
    for (const GgufTensor& t : tensors_) write_tensor(t, infos, data);
    GgufBytes file;
    file.raw(magic_).put(version_);
    file.put(n_tensors_.value_or(tensors_.size() + n_raw_infos_)).put(n_kv_.value_or(n_entries_));
    file.raw(metadata_.str()).raw(infos.str()).raw(raw_infos_.str());
    if (write_data_ && !tensors_.empty()) pad(file).raw(data.str());
    return file.str();
  }
  void write(const std::string& path) const {
    const std::string content = bytes();
    std::ofstream(path, std::ios::binary).write(content.data(), std::streamsize(content.size()));
  }

 private:
  GgufBytes& entry(std::string_view key) {
    ++n_entries_;
    return metadata_.string(key);
  }
  template <class T>
  void put_value(const T& value) {
    if constexpr (std::is_convertible_v<T, std::string_view>) {
      metadata_.string(value);
    } else {
      metadata_.put(value);
    }
  }
  GgufBytes& pad(GgufBytes& bytes) const {
    while (bytes.size() % alignment_ != 0) bytes.put('\0');
    return bytes;
  }
  void write_tensor(const GgufTensor& t, GgufBytes& infos, GgufBytes& data) const {
    infos.string(t.name).put<uint32_t>(static_cast<uint32_t>(t.dims.size()));
    for (auto dim = t.dims.rbegin(); dim != t.dims.rend(); ++dim) infos.put<uint64_t>(*dim);
    infos.put(t.type).put<uint64_t>(t.offset.value_or(data.size()));
    pad(data.raw(t.data));
  }

  std::string magic_ = "GGUF";
  uint32_t version_ = 3;
  std::optional<uint64_t> n_tensors_;
  std::optional<uint64_t> n_kv_;
  uint64_t alignment_ = 32;
  bool write_data_ = true;
  uint64_t n_entries_ = 0;
  GgufBytes metadata_;
  std::vector<GgufTensor> tensors_;
  uint64_t n_raw_infos_ = 0;
  GgufBytes raw_infos_;
};

}  // namespace bp::test
