#pragma once
// Archives as torch.save writes them, built byte by byte, so that each can be broken anywhere.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "formats/pytorch/model.hpp"
#include "formats/pytorch/state_dict.hpp"
#include "tests/formats/model_folder.hpp"

namespace bp::pytorch {

template <class T>
std::string le(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

// Opcodes; each pushes one value unless it says otherwise.
namespace pickle {

inline std::string text(const std::string& s) {
  return "X" + le(static_cast<uint32_t>(s.size())) + s;
}
inline std::string number(int64_t n) {
  return n == static_cast<int32_t>(n) ? "J" + le(static_cast<int32_t>(n)) : "\x8a\x08" + le(n);
}
inline std::string global(const std::string& module, const std::string& name) {
  return "c" + module + "\n" + name + "\n";
}
inline std::string tuple(const std::vector<std::string>& items) {
  std::string all = "(";
  for (const std::string& item : items) all += item;
  return all + "t";
}
inline std::string numbers(const std::vector<int64_t>& values) {
  std::vector<std::string> items;
  for (const int64_t value : values) items.push_back(number(value));
  return tuple(items);
}
inline std::string call(const std::string& function, const std::vector<std::string>& arguments) {
  return function + tuple(arguments) + "R";
}
inline std::string ordered_dict() {
  return call(global("collections", "OrderedDict"), {});
}
using Items = std::vector<std::pair<std::string, std::string>>;  // names, and opcodes of values
inline std::string dict(const Items& items, const std::string& empty = "}") {
  std::string all = empty + "(";
  for (const auto& [key, value] : items) all += text(key) + value;
  return all + "u";
}
inline std::string storage(const std::string& type, const std::string& key, int64_t n) {
  return tuple({text("storage"), global("torch", type), text(key), text("cpu"), number(n)}) + "Q";
}
inline std::string tensor(const std::string& storage, int64_t offset,
                          const std::vector<int64_t>& dims, const std::vector<int64_t>& strides) {
  return call(global("torch._utils", "_rebuild_tensor_v2"),
              {storage, number(offset), numbers(dims), numbers(strides), "\x89", ordered_dict()});
}
inline std::string whole(const std::string& body) {
  return "\x80\x02" + body + ".";
}

}  // namespace pickle

struct ZipItem {
  std::string name;
  std::string data;
};

// Where things lie in the archive that zip() makes.
struct Zip {
  std::string bytes;
  std::vector<size_t> local_at;      // of each item's local header
  std::vector<size_t> directory_at;  // of its entry in the directory
  size_t end64_at = 0;
  size_t end_at = 0;

  template <class T>
  Zip& patch(size_t at, T value) {
    std::memcpy(bytes.data() + at, &value, sizeof value);
    return *this;
  }
};

// As torch writes it: sizes behind the data, data at multiples of 64, and end records of both
// kinds.
inline Zip zip(const std::vector<ZipItem>& items) {
  Zip out;
  std::string directory;
  for (const ZipItem& item : items) {
    const size_t at = out.bytes.size();
    const auto name_bytes = static_cast<uint16_t>(item.name.size());
    const auto size = static_cast<uint32_t>(item.data.size());
    const size_t header = 30 + item.name.size() + 4;
    const auto padding = static_cast<uint16_t>((64 - (at + header) % 64) % 64);
    out.local_at.push_back(at);
    out.bytes += le(0x04034b50u) + le(uint16_t{0}) + le(uint16_t{0x808}) + le(uint16_t{0}) +
                 le(uint64_t{0}) + le(uint32_t{0}) + le(uint32_t{0}) + le(name_bytes) +
                 le(static_cast<uint16_t>(padding + 4)) + item.name + "FB" + le(padding) +
                 std::string(padding, 'Z') + item.data;
    if (size > 0) out.bytes += le(0x08074b50u) + le(uint32_t{0}) + le(size) + le(size);
    out.directory_at.push_back(directory.size());
    directory += le(0x02014b50u) + le(uint32_t{0}) + le(uint16_t{0x808}) + le(uint16_t{0}) +
                 le(uint64_t{0}) + le(size) + le(size) + le(name_bytes) + le(uint32_t{0}) +
                 le(uint32_t{0}) + le(uint32_t{0}) + le(static_cast<uint32_t>(at)) + item.name;
  }
  for (size_t& at : out.directory_at) at += out.bytes.size();
  const auto n = static_cast<uint16_t>(items.size());
  const auto offset = static_cast<uint32_t>(out.bytes.size());
  const auto n_bytes = static_cast<uint32_t>(directory.size());
  out.bytes += directory;
  out.end64_at = out.bytes.size();
  out.bytes += le(0x06064b50u) + le(uint64_t{44}) + le(uint32_t{0}) + le(uint64_t{0}) +
               le(uint64_t{n}) + le(uint64_t{n}) + le(uint64_t{n_bytes}) + le(uint64_t{offset});
  out.bytes += le(0x07064b50u) + le(uint32_t{0}) + le(uint64_t{out.end64_at}) + le(uint32_t{1});
  out.end_at = out.bytes.size();
  out.bytes += le(0x06054b50u) + le(uint32_t{0}) + le(n) + le(n) + le(n_bytes) + le(offset) +
               le(uint16_t{0});
  return out;
}

inline std::string archive(const std::string& pickle, const std::vector<ZipItem>& storages,
                           const std::string& byte_order = "little") {
  std::vector<ZipItem> items = {{"m/data.pkl", pickle}, {"m/byteorder", byte_order}};
  for (const ZipItem& s : storages) items.push_back({"m/data/" + s.name, s.data});
  items.push_back({"m/version", "3\n"});
  return zip(items).bytes;
}

template <class T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

// One F32 tensor [n].
inline std::string one_tensor(const std::string& name, int64_t n) {
  const std::vector<float> values(static_cast<size_t>(n), 1.0F);
  const std::string entry = pickle::tensor(pickle::storage("FloatStorage", "0", n), 0, {n}, {1});
  return archive(pickle::whole(pickle::dict({{name, entry}})), {{"0", bytes_of(values)}});
}

using Folder = ModelFolder;

inline Result<std::unique_ptr<ModelFile>> open(const std::string& path) {
  return Model::open(Host(nullptr), path);
}

inline Result<StateDict> read_bytes(const std::string& bytes) {
  return read_state_dict(FileBytes::of_memory("m.pt", bytes));
}

inline void expect_refused(const Status& status, const std::string& rule,
                           Code code = Code::kInvalidArgument) {
  EXPECT_EQ(status.code(), code) << status.message();
  EXPECT_THAT(status.message(), testing::HasSubstr(rule));
  EXPECT_LT(status.message().size(), 480u);
}

}  // namespace bp::pytorch
