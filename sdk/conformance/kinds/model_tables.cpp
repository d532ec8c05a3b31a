#include "sdk/conformance/kinds/model_tables.hpp"

#include <algorithm>
#include <set>
#include <vector>

#include "backplane/dtype.hpp"
#include "sdk/conformance/test.hpp"

namespace bp::conformance {

namespace {

constexpr size_t kElementBytes[] = {0, 8, 8, 8, 1, sizeof(bp_str)};  // of BP_META_*

std::string quoted(bp_str s) {
  return "\"" + std::string(view(s)) + "\"";
}

// Looks at every byte, so that a wrong length or a dangling pointer shows here.
void require_text(const std::string& what, bp_str s) {
  require(s.size == 0 || s.data != nullptr,
          what + " is a null string of " + std::to_string(s.size) + " bytes");
  volatile char seen = 0;
  for (size_t i = 0; i < s.size; ++i) seen = s.data[i];
  static_cast<void>(seen);
}

void require_value(const bp_metadata& m) {
  const std::string name = "metadata " + quoted(m.key);
  require(m.type >= BP_META_U64 && m.type <= BP_META_STRING,
          name + " has the unknown type " + std::to_string(m.type));
  require(m.is_array <= 1, name + ": is_array is neither 0 nor 1");
  require(m.is_array == 1 || m.n == 1, name + " is a scalar of " + std::to_string(m.n) + " values");
  require(m.n == 0 || m.data != nullptr, name + " has no data");
  require_text(name, {static_cast<const char*>(m.data), m.n * kElementBytes[m.type]});
  for (uint64_t i = 0; i < m.n; ++i) {
    if (m.type == BP_META_STRING) {
      require_text(name + ", string " + std::to_string(i), static_cast<const bp_str*>(m.data)[i]);
    }
    if (m.type != BP_META_BOOL) continue;
    require(static_cast<const uint8_t*>(m.data)[i] <= 1, name + " has a bool that is not 0 or 1");
  }
}

void require_metadata(const bp_model_file& tables) {
  std::set<std::string_view> keys;
  for (uint64_t i = 0; i < tables.n_metadata; ++i) {
    const bp_metadata& m = tables.metadata[i];
    require_text("the key of metadata " + std::to_string(i), m.key);
    require(keys.insert(view(m.key)).second, "the key " + quoted(m.key) + " stands twice");
    require_value(m);
  }
}

// Bytes that the tensor's rows take, from the first to the end of the last.
double span_bytes(const bp_tensor& t) {
  double rows = 1;
  for (uint32_t d = 0; d + 1 < t.n_dims; ++d) rows *= static_cast<double>(t.dims[d]);
  const auto row = static_cast<double>(row_bytes(t.dtype, t.dims[t.n_dims - 1]));
  return (rows - 1) * static_cast<double>(t.row_stride_bytes) + row;
}

void require_shape(const bp_tensor& t) {
  const std::string name = "tensor " + quoted(t.name);
  require(is_known_dtype(t.dtype), name + " has the unknown type " + std::to_string(t.dtype));
  require(t.n_dims >= 1 && t.n_dims <= BP_MAX_DIMS,
          name + " has " + std::to_string(t.n_dims) + " dimensions");
  for (uint32_t d = 0; d < t.n_dims; ++d) {
    require(t.dims[d] > 0, name + " has an empty dimension");
  }
  const uint64_t width = t.dims[t.n_dims - 1];
  require(width % dtype_info(t.dtype).block_elements == 0,
          name + " has rows of " + std::to_string(width) + " elements: no whole blocks of " +
              std::string(dtype_name(t.dtype)));
  const bool packed = t.n_dims == 1 || t.row_stride_bytes >= row_bytes(t.dtype, width);
  require(packed, name + " has rows that overlap: row_stride_bytes is " +
                      std::to_string(t.row_stride_bytes));
}

void require_inside(const bp_tensor& t, const std::vector<uint64_t>& file_bytes) {
  const std::string name = "tensor " + quoted(t.name);
  require(t.file < file_bytes.size(), name + " lies in file " + std::to_string(t.file) + " of " +
                                          std::to_string(file_bytes.size()));
  const uint64_t size = file_bytes[t.file];
  require(t.offset <= size && t.n_bytes <= size - t.offset,
          name + " lies at offset " + std::to_string(t.offset) + ", " + std::to_string(t.n_bytes) +
              " bytes long, outside of its file of " + std::to_string(size) + " bytes");
}

void require_room(const bp_tensor& t) {
  require(span_bytes(t) <= static_cast<double>(t.n_bytes),
          "tensor " + quoted(t.name) + " has more rows than its " + std::to_string(t.n_bytes) +
              " bytes hold");
}

// Rows [first, first + n) of a tensor that the plugin reads itself, and nothing behind them.
std::vector<char> read_rows(const OpenModel& model, uint64_t index, uint64_t first, uint64_t n) {
  constexpr char kUntouched = 0x5a;
  constexpr size_t kBehind = 64;
  const bp_tensor& t = model.tables().tensors[index];
  const size_t n_bytes = n * row_bytes(t.dtype, t.dims[t.n_dims - 1]);
  std::vector<char> rows(n_bytes + kBehind, kUntouched);
  const Status status = model.read(index, first, n, rows.data());
  const std::string which = "tensor " + quoted(t.name) + " has no offset, and read of " +
                            std::to_string(n) + " rows from row " + std::to_string(first);
  require(status.ok(), which + " fails: " + status.message());
  require(std::all_of(rows.end() - kBehind, rows.end(), [](char c) { return c == kUntouched; }),
          which + " writes behind them");
  rows.resize(n_bytes);
  return rows;
}

// As a whole, as far as that is not much, and row by row.
void require_readable(const OpenModel& model, uint64_t index) {
  constexpr uint64_t kMostBytes = uint64_t{16} << 20, kMostRows = 8;
  const bp_tensor& t = model.tables().tensors[index];
  uint64_t n_rows = 1;
  for (uint32_t d = 0; d + 1 < t.n_dims; ++d) n_rows *= t.dims[d];
  const size_t row_size = row_bytes(t.dtype, t.dims[t.n_dims - 1]);
  const uint64_t n_at_once =
      std::min(n_rows, std::max(uint64_t{1}, kMostBytes / std::max<uint64_t>(row_size, 1)));
  for (const uint64_t first : {uint64_t{0}, n_rows - n_at_once}) {
    const std::vector<char> together = read_rows(model, index, first, n_at_once);
    for (uint64_t k = 0; k < std::min(n_at_once, kMostRows); ++k) {
      const uint64_t i = k * (n_at_once - 1) / std::max<uint64_t>(kMostRows - 1, 1);
      const uint64_t row = n_at_once <= kMostRows ? k : i;
      const std::vector<char> alone = read_rows(model, index, first + row, 1);
      require(std::equal(alone.begin(), alone.end(), together.begin() + row * row_size),
              "tensor " + quoted(t.name) + ": row " + std::to_string(first + row) +
                  " read alone differs from the one read with others");
    }
  }
}

}  // namespace

OpenModel::OpenModel(const bp_format& format, const std::filesystem::path& path) : format_(format) {
  bp_error error{};
  bp_model_file untouched{};
  model_ = &untouched;
  const bp_status code = format_.open(nullptr, path.c_str(), &model_, &error);
  if (code == BP_OK) {
    require(model_ != &untouched && model_ != nullptr, "open gives OK and no model");
    tables_ = copy_growable(model_);
    return;
  }
  const bool wrote = model_ != &untouched;
  model_ = nullptr;
  require(!wrote, "open fails with code " + std::to_string(code) + " but writes to *out");
  status_ = from_c(code, error);
  require(code == BP_IO_ERROR || code == BP_INVALID_ARGUMENT || code == BP_UNSUPPORTED ||
              code == BP_OUT_OF_MEMORY,
          "open fails with code " + std::to_string(code) +
              ", which says nothing of a file: " + status_.message());
  require(std::memchr(error.message, 0, sizeof error.message) != nullptr,
          "the message of a failing open has no NUL at its end");
  require(status_.message().size() >= 8,
          "open fails without a sentence: \"" + status_.message() + "\"");
}

OpenModel::~OpenModel() {
  if (model_ != nullptr) format_.close(model_);
}

Status OpenModel::read(uint64_t tensor, uint64_t first_row, uint64_t n_rows,
                       void* destination) const {
  if (format_.read == nullptr) return unsupported("the plugin has no read");
  bp_error error{};
  return from_c(format_.read(model_, tensor, first_row, n_rows, destination, &error), error);
}

void require_sound(const OpenModel& model) {
  const bp_model_file& tables = model.tables();
  require(tables.dialect != nullptr && *tables.dialect != 0, "the model has no dialect");
  require(tables.n_files == 0 || tables.files != nullptr, "the table of files is null");
  require(tables.n_metadata == 0 || tables.metadata != nullptr, "the table of metadata is null");
  require(tables.n_tensors == 0 || tables.tensors != nullptr, "the table of tensors is null");
  std::vector<uint64_t> file_bytes;
  for (uint32_t i = 0; i < tables.n_files; ++i) {
    const std::filesystem::path path = tables.files[i] == nullptr ? "" : tables.files[i];
    std::error_code error;
    require(path.is_absolute(), "file " + std::to_string(i) + " has no absolute path");
    file_bytes.push_back(std::filesystem::file_size(path, error));
    require(!error, "file " + path.string() + ": " + error.message());
  }
  require_metadata(tables);
  std::set<std::string_view> names;
  for (uint64_t i = 0; i < tables.n_tensors; ++i) {
    const bp_tensor& t = tables.tensors[i];
    require_text("the name of tensor " + std::to_string(i), t.name);
    require(names.insert(view(t.name)).second, "the tensor " + quoted(t.name) + " stands twice");
    require_shape(t);
    require_room(t);
    t.offset == BP_NO_OFFSET ? require_readable(model, i) : require_inside(t, file_bytes);
  }
}

std::string text_of(const bp_model_file& tables) {
  std::string text = tables.dialect;
  for (uint64_t i = 0; i < tables.n_metadata; ++i) {
    const bp_metadata& m = tables.metadata[i];
    text += "\n" + quoted(m.key) + " " + std::to_string(m.type) + " " + std::to_string(m.n) + ":";
    if (m.type != BP_META_STRING) {
      text.append(static_cast<const char*>(m.data), m.n * kElementBytes[m.type]);
    } else {
      for (uint64_t k = 0; k < m.n; ++k) text += quoted(static_cast<const bp_str*>(m.data)[k]);
    }
  }
  for (uint64_t i = 0; i < tables.n_tensors; ++i) {
    const bp_tensor& t = tables.tensors[i];
    text += "\n" + quoted(t.name) + " " + std::to_string(t.dtype);
    for (uint32_t d = 0; d < t.n_dims; ++d) text += " " + std::to_string(t.dims[d]);
    text += " at " + std::to_string(t.offset) + " of " + std::to_string(t.file);
  }
  return text;
}

}  // namespace bp::conformance
