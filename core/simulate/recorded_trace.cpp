#include "core/simulate/recorded_trace.hpp"

#include <fstream>
#include <map>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/simulate/trace_row.hpp"

namespace bp::simulate {

namespace {

// One line of CSV into its fields; quotes may enclose a field and are doubled inside one.
std::vector<std::string> split_csv(std::string_view line) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (c == '"') {
      if (quoted && i + 1 < line.size() && line[i + 1] == '"') {
        fields.back() += line[++i];
      } else {
        quoted = !quoted;
      }
    } else if (c == ',' && !quoted) {
      fields.emplace_back();
    } else {
      fields.back() += c;
    }
  }
  return fields;
}

class CsvReader {
 public:
  Status read(std::string_view line, TraceRow& row) {
    const auto fields = split_csv(line);
    if (columns_.empty()) return read_header(fields);
    if (fields.size() != columns_.size()) {
      return invalid_argument(
          fmt::format("{} fields under {} names", fields.size(), columns_.size()));
    }
    for (size_t i = 0; i < fields.size(); ++i) {
      if (columns_[i] != Column::kNone) BP_TRY(row.set_text(columns_[i], fields[i]));
    }
    return {};
  }

 private:
  Status read_header(const std::vector<std::string>& names) {
    for (const std::string& name : names) columns_.push_back(column_of(name));
    return check_columns(columns_);
  }

  std::vector<Column> columns_;
};

Status read_hash_ids(const nlohmann::json& value, TraceRow& row) {
  if (!value.is_array()) return invalid_argument("hash_ids: must be a list");
  std::vector<uint64_t> ids;
  for (const auto& id : value) {
    if (!id.is_number_unsigned()) return invalid_argument("hash_ids: must be whole numbers");
    ids.push_back(id.get<uint64_t>());
  }
  row.set_hash_ids(std::move(ids));
  return {};
}

Status read_json_line(std::string_view line, TraceRow& row) {
  const auto object = nlohmann::json::parse(line, nullptr, false);
  if (!object.is_object()) return invalid_argument("no object of JSON");
  for (const auto& [name, value] : object.items()) {
    const Column column = column_of(name);
    if (column == Column::kNone || value.is_null()) continue;
    if (column == Column::kHashIds) {
      BP_TRY(read_hash_ids(value, row));
    } else if (value.is_number()) {
      BP_TRY(row.set_number(column, value.get<double>(), value.dump()));
    } else if (value.is_string()) {
      BP_TRY(row.set_text(column, value.get_ref<const std::string&>()));
    } else {
      return invalid_argument(name + ": must be a number or text");
    }
  }
  return {};
}

constexpr size_t kMostLineBytes = 1 << 20;  // 32768 hashes of the longest prompt, with blanks

// The lines of a file, none of which is held beyond the limits.
class LineReader {
 public:
  LineReader(const std::string& path, uint64_t max_bytes)
      : path_(path), file_(path), max_bytes_(max_bytes), line_(kMostLineBytes + 1) {}

  // Without its end; nullopt behind the last.
  Result<std::optional<std::string_view>> next() {
    if (!file_.getline(line_.data(), static_cast<std::streamsize>(line_.size()))) return end();
    ++number_;
    const auto n_read = static_cast<size_t>(file_.gcount());
    n_bytes_ += n_read;
    if (n_bytes_ > max_bytes_) {
      return invalid_argument(
          fmt::format("{}: larger than {} MiB, the most that is read; give a part of it", path_,
                      max_bytes_ >> 20));
    }
    std::string_view line(line_.data(), file_.eof() ? n_read : n_read - 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (number_ == 1 && line.starts_with("\xEF\xBB\xBF")) line.remove_prefix(3);
    return std::optional(line);
  }
  // "FILE:LINE" of the last one.
  [[nodiscard]] std::string place() const { return fmt::format("{}:{}", path_, number_); }

 private:
  Result<std::optional<std::string_view>> end() {
    if (file_.bad() || !file_.is_open()) return io_error(path_ + ": cannot be read");
    if (file_.eof()) return std::optional<std::string_view>();
    return invalid_argument(
        fmt::format("{}:{}: the line is longer than {} KiB, the most that is "
                    "read",
                    path_, number_ + 1, kMostLineBytes >> 10));
  }

  const std::string& path_;
  std::ifstream file_;
  const uint64_t max_bytes_;
  std::vector<char> line_;
  uint64_t number_ = 0, n_bytes_ = 0;
};

}  // namespace

Result<Trace> load_recorded_trace(const std::string& path, uint64_t max_bytes) {
  const bool is_csv = path.ends_with(".csv");
  Trace trace;
  TraceRows rows(trace);
  CsvReader csv;
  LineReader lines(path, max_bytes);
  bool header = is_csv;
  while (true) {
    BP_ASSIGN(const auto line, lines.next());
    if (!line) return trace;
    if (line->empty()) continue;
    TraceRow row;
    Status status = is_csv ? csv.read(*line, row) : read_json_line(*line, row);
    if (status.ok() && !header) status = rows.add(row);
    if (!status.ok()) return status.with_context(lines.place());
    header = false;
  }
}

}  // namespace bp::simulate
