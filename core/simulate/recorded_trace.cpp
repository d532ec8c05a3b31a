#include "core/simulate/recorded_trace.hpp"

#include <fstream>
#include <map>

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

}  // namespace

Result<Trace> load_recorded_trace(const std::string& path) {
  std::ifstream file(path);
  if (!file) return io_error(path + ": cannot be read");
  const bool is_csv = path.ends_with(".csv");
  Trace trace;
  TraceRows rows(trace);
  CsvReader csv;
  std::string line;
  bool header = is_csv;
  for (uint64_t number = 1; std::getline(file, line); ++number) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (number == 1 && line.starts_with("\xEF\xBB\xBF")) line.erase(0, 3);
    if (line.empty()) continue;
    TraceRow row;
    Status status = is_csv ? csv.read(line, row) : read_json_line(line, row);
    if (status.ok() && !header) status = rows.add(row);
    if (!status.ok()) return status.with_context(fmt::format("{}:{}", path, number));
    header = false;
  }
  if (file.bad()) return io_error(path + ": cannot be read");
  return trace;
}

}  // namespace bp::simulate
