#pragma once
// One recorded request, whatever names and units its columns have.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/simulate/trace.hpp"

namespace bp::simulate {

enum class Column {
  kNone,  // of no interest
  kArrival,
  kArrivalMs,
  kArrivalUs,
  kPrompt,
  kOutput,
  kPriority,
  kTenant,
  kPrefix,
  kPrefixTokens,
  kHashIds,
};

// By its name without regard to case, blanks, '_' and '-'.
Column column_of(std::string_view name);
// Arrival, prompt and output are needed, and nothing twice.
Status check_columns(const std::vector<Column>& columns);

class TraceRow {
 public:
  Status set_text(Column column, std::string_view text);
  // `text`: the number as it was written, for names.
  Status set_number(Column column, double value, const std::string& text);
  void set_hash_ids(std::vector<uint64_t> ids) { hash_ids_ = std::move(ids); }

 private:
  friend class TraceRows;

  std::optional<double> arrival_s_;
  bool arrival_is_timestamp_ = false;  // in seconds, but milliseconds beside hash_ids
  std::optional<uint32_t> n_prompt_, n_output_;
  int32_t priority_ = 0;
  std::string tenant_, prefix_;
  uint32_t prefix_tokens_ = 0;
  std::optional<std::vector<uint64_t>> hash_ids_;
};

// Rows become requests; names become numbers.
class TraceRows {
 public:
  explicit TraceRows(Trace& trace) : trace_(trace) {}
  Status add(const TraceRow& row);

 private:
  uint32_t tenant_of(const TraceRow& row);
  uint32_t prefix_of(const TraceRow& row);
  template <class Name>
  int32_t prefix_id(std::map<Name, int32_t>& ids, const Name& name);

  Trace& trace_;
  std::map<std::string, uint32_t> tenants_;
  std::map<std::string, int32_t> named_ids_;
  std::map<uint64_t, int32_t> hash_ids_;
  std::map<std::pair<std::string, uint32_t>, uint32_t> prefixes_;  // by name and tokens
  std::optional<double> first_s_;
};

}  // namespace bp::simulate
