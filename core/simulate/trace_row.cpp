#include "core/simulate/trace_row.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdio>

#include <fmt/format.h>

namespace bp::simulate {

namespace {

constexpr uint32_t kHashIdTokens = 512;  // of Mooncake's traces
constexpr double kEarliestSeconds = 1e9;

struct NamedColumn {
  std::string_view name;
  Column column;
};

// Besides our own names those of the Azure, BurstGPT, Mooncake and Vidur traces.
constexpr std::array kNames = {
    NamedColumn{"arrival", Column::kArrival},
    NamedColumn{"arrivals", Column::kArrival},
    NamedColumn{"arrivedat", Column::kArrival},
    NamedColumn{"timestamp", Column::kArrival},
    NamedColumn{"arrivalms", Column::kArrivalMs},
    NamedColumn{"arrivalus", Column::kArrivalUs},
    NamedColumn{"prompt", Column::kPrompt},
    NamedColumn{"prompttokens", Column::kPrompt},
    NamedColumn{"contexttokens", Column::kPrompt},
    NamedColumn{"requesttokens", Column::kPrompt},
    NamedColumn{"inputlength", Column::kPrompt},
    NamedColumn{"numprefilltokens", Column::kPrompt},
    NamedColumn{"output", Column::kOutput},
    NamedColumn{"outputtokens", Column::kOutput},
    NamedColumn{"generatedtokens", Column::kOutput},
    NamedColumn{"responsetokens", Column::kOutput},
    NamedColumn{"outputlength", Column::kOutput},
    NamedColumn{"numdecodetokens", Column::kOutput},
    NamedColumn{"priority", Column::kPriority},
    NamedColumn{"tenant", Column::kTenant},
    NamedColumn{"user", Column::kTenant},
    NamedColumn{"prefix", Column::kPrefix},
    NamedColumn{"prefixid", Column::kPrefix},
    NamedColumn{"prefixtokens", Column::kPrefixTokens},
    NamedColumn{"hashids", Column::kHashIds},
};

bool is_arrival(Column column) {
  return column == Column::kArrival || column == Column::kArrivalMs || column == Column::kArrivalUs;
}

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t");
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

std::optional<double> to_number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Seconds since 1970 of "2023-11-16 18:15:46.6805900", also with a T between; a zone is ignored.
std::optional<double> to_date_time(std::string_view text) {
  int year = 0;
  unsigned month = 0, day = 0, hour = 0, minute = 0;
  double second = 0;
  const std::string copy(text);
  const int n = std::sscanf(copy.c_str(), "%4d-%2u-%2u%*1[ T]%2u:%2u:%lf", &year, &month, &day,
                            &hour, &minute, &second);
  if (n != 6) return std::nullopt;
  const std::chrono::year_month_day date{std::chrono::year(year), std::chrono::month(month),
                                         std::chrono::day(day)};
  if (!date.ok()) return std::nullopt;
  const auto days = std::chrono::sys_days(date).time_since_epoch().count();
  return static_cast<double>(days) * 86400.0 + hour * 3600.0 + minute * 60.0 + second;
}

Status store_tokens(const char* name, double value, std::optional<uint32_t>& out) {
  if (!(value >= 0 && value <= kMostTokens) || value != std::floor(value)) {
    return invalid_argument(
        fmt::format("{}: {} is no number of tokens, 0 to {}", name, value, kMostTokens));
  }
  out = static_cast<uint32_t>(value);
  return {};
}

}  // namespace

Column column_of(std::string_view name) {
  std::string plain;
  for (const char c : name) {
    if (c == ' ' || c == '_' || c == '-') continue;
    plain += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  const auto it = std::ranges::find(kNames, plain, &NamedColumn::name);
  return it == kNames.end() ? Column::kNone : it->column;
}

Status check_columns(const std::vector<Column>& columns) {
  const auto count = [&](auto&& predicate) { return std::ranges::count_if(columns, predicate); };
  const auto n_of = [&](Column c) { return count([c](Column other) { return other == c; }); };
  if (count(is_arrival) != 1 || n_of(Column::kPrompt) != 1 || n_of(Column::kOutput) != 1) {
    return invalid_argument(
        "needs one column each for arrival, prompt and output (such as 'arrival,prompt,output', "
        "'TIMESTAMP,ContextTokens,GeneratedTokens' or 'Timestamp,Request tokens,Response tokens')");
  }
  for (const Column c :
       {Column::kPriority, Column::kTenant, Column::kPrefix, Column::kPrefixTokens}) {
    if (n_of(c) > 1) return invalid_argument("two columns mean the same");
  }
  return {};
}

Status TraceRow::set_text(Column column, std::string_view raw) {
  const std::string_view text = trimmed(raw);
  if (column == Column::kTenant) {
    tenant_ = text;
    return {};
  }
  if (column == Column::kPrefix) {
    prefix_ = text;
    return {};
  }
  if (text.empty() && (column == Column::kPriority || column == Column::kPrefixTokens)) return {};
  auto number = to_number(text);
  if (!number && column == Column::kArrival) number = to_date_time(text);
  if (!number) return invalid_argument(fmt::format("'{}' is no number", text));
  return set_number(column, *number, std::string(text));
}

Status TraceRow::set_number(Column column, double value, const std::string& text) {
  if (!std::isfinite(value)) return invalid_argument(fmt::format("'{}' is no number", text));
  std::optional<uint32_t> prefix_tokens;
  switch (column) {
    case Column::kArrival:
      arrival_is_timestamp_ = true;
      arrival_s_ = value;
      return {};
    case Column::kArrivalMs:
      arrival_s_ = value * 1e-3;
      return {};
    case Column::kArrivalUs:
      arrival_s_ = value * 1e-6;
      return {};
    case Column::kPrompt:
      return store_tokens("prompt", value, n_prompt_);
    case Column::kOutput:
      return store_tokens("output", value, n_output_);
    case Column::kPrefixTokens:
      BP_TRY(store_tokens("prefix_tokens", value, prefix_tokens));
      prefix_tokens_ = *prefix_tokens;
      return {};
    case Column::kPriority:
      if (std::abs(value) > INT32_MAX || value != std::floor(value)) {
        return invalid_argument(fmt::format("priority: '{}' is no whole number", text));
      }
      priority_ = static_cast<int32_t>(value);
      return {};
    case Column::kTenant:
      tenant_ = text;
      return {};
    case Column::kPrefix:
      prefix_ = text;
      return {};
    case Column::kHashIds:
      return invalid_argument("hash_ids: must be a list, in JSON");
    case Column::kNone:
      return {};
  }
  return {};
}

// Names and hashes share the numbers, but no number means one of each.
template <class Name>
int32_t TraceRows::prefix_id(std::map<Name, int32_t>& ids, const Name& name) {
  const auto next = static_cast<int32_t>(named_ids_.size() + hash_ids_.size());
  return ids.emplace(name, next).first->second;
}

uint32_t TraceRows::tenant_of(const TraceRow& row) {
  const auto [tenant, is_new] =
      tenants_.emplace(row.tenant_, static_cast<uint32_t>(trace_.tenants.size()));
  if (is_new) trace_.tenants.push_back(row.tenant_);
  return tenant->second;
}

uint32_t TraceRows::prefix_of(const TraceRow& row) {
  const auto next = static_cast<uint32_t>(trace_.prefixes.size());
  const auto first_id = static_cast<uint32_t>(trace_.prefix_ids.size());
  if (row.hash_ids_ && !row.hash_ids_->empty()) {
    for (const uint64_t id : *row.hash_ids_) trace_.prefix_ids.push_back(prefix_id(hash_ids_, id));
    const auto n_ids = static_cast<uint32_t>(row.hash_ids_->size());
    trace_.prefixes.push_back({first_id, n_ids, kHashIdTokens});
    return next;
  }
  if (row.prefix_.empty() || row.prefix_tokens_ == 0) return kNoPrefix;
  const auto [known, is_new] = prefixes_.emplace(std::pair(row.prefix_, row.prefix_tokens_), next);
  if (is_new) {
    trace_.prefix_ids.push_back(prefix_id(named_ids_, row.prefix_));
    trace_.prefixes.push_back({first_id, 1, row.prefix_tokens_});
  }
  return known->second;
}

Status TraceRows::add(const TraceRow& row) {
  if (!row.arrival_s_ || !row.n_prompt_ || !row.n_output_) {
    return invalid_argument("arrival, prompt and output are needed");
  }
  if (*row.n_prompt_ == 0 || *row.n_output_ == 0) {
    ++trace_.n_skipped;
    return {};
  }
  const bool in_ms = row.hash_ids_ && row.arrival_is_timestamp_;
  const double arrival_s = *row.arrival_s_ * (in_ms ? 1e-3 : 1);
  if (!first_s_) first_s_ = arrival_s;
  // Counted from long before the first row, since rows may be out of order.
  const double since_s = arrival_s - *first_s_ + kEarliestSeconds;
  if (!(since_s >= 0 && since_s <= 2 * kEarliestSeconds)) {
    return invalid_argument("arrival: 30 years from that of the first row");
  }
  if (trace_.requests.size() == kMostRequests) {
    return invalid_argument("more than 100 million requests");
  }
  TraceRequest r;
  r.arrival_us = static_cast<uint64_t>(std::llround(since_s * 1e6));
  r.n_prompt = *row.n_prompt_;
  r.n_output = *row.n_output_;
  r.priority = row.priority_;
  r.tenant = tenant_of(row);
  r.prefix = prefix_of(row);
  trace_.requests.push_back(r);
  return {};
}

}  // namespace bp::simulate
