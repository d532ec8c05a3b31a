#include <fmt/format.h>

#include <charconv>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "core/server/text_call.hpp"

namespace bp::server {

namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kMaxTokens = INT32_MAX;
constexpr int64_t kMaxChoices = 128;
constexpr size_t kMaxStops = 16;
constexpr size_t kMaxStopBytes = 1024;
constexpr size_t kMaxStopTokens = 256;
constexpr size_t kMaxBiases = 1024;
constexpr float kMaxBias = 100;
constexpr size_t kMaxStages = 32;
constexpr size_t kMaxStageNameBytes = 256;
constexpr size_t kMaxSaltBytes = 512;
constexpr size_t kMaxStageTextBytes = 4096;

uint32_t n_vocab(const CallContext& c) {
  return static_cast<uint32_t>(c.model.tokenizer->vocabulary().n_tokens());
}

std::optional<plugin::ParamValue> to_param(const Json& value) {
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number_unsigned() && value.get<uint64_t>() > INT64_MAX) return value.get<double>();
  if (value.is_number_integer()) return value.get<int64_t>();
  if (value.is_number_float()) return value.get<double>();
  const bool is_short =
      value.is_string() && value.get_ref<const std::string&>().size() <= kMaxStageTextBytes;
  if (is_short) return value.get<std::string>();
  return std::nullopt;
}

void read_stage_fields(FieldReader& fields, const CallContext& c, TextCall& call) {
  for (const plugin::FieldSpec& spec : c.model.request_fields) {
    const Json* value = fields.any(spec.name);
    if (value == nullptr) continue;
    const auto param = to_param(*value);
    if (!param) return fields.refuse(spec.name, "must be a number, a short text, true or false");
    auto checked = plugin::check_field(spec, *param);
    if (!checked.ok()) return fields.refuse(spec.name, checked.status().message());
    call.request.sampling.insert_or_assign(spec.name, std::move(checked).value());
  }
}

void read_strings(FieldReader& fields, const std::string& name, size_t max_size, size_t max_bytes,
                  std::vector<std::string>& out) {
  const Json* list = fields.array(name, max_size);
  if (list == nullptr) return;
  for (const Json& entry : *list) {
    if (!entry.is_string()) return fields.refuse(name, "must hold strings");
    const auto& text = entry.get_ref<const std::string&>();
    if (text.empty() || text.size() > max_bytes) {
      return fields.refuse(name, fmt::format("must hold strings of 1 to {} bytes", max_bytes));
    }
    out.push_back(text);
  }
}

void read_chain(FieldReader& fields, TextCall& call) {
  if (!fields.has("samplers")) return;
  read_strings(fields, "samplers", kMaxStages, kMaxStageNameBytes, call.request.chain);
  if (call.request.chain.empty()) fields.refuse("samplers", "must name at least one stage");
}

void read_stop(FieldReader& fields, TextCall& call) {
  const Json* stop = fields.any("stop");
  if (stop == nullptr) return;
  if (!stop->is_string()) {
    return read_strings(fields, "stop", kMaxStops, kMaxStopBytes, call.request.stop);
  }
  const auto text = fields.text("stop", kMaxStopBytes);
  if (!text) return;
  if (text->empty()) return fields.refuse("stop", "must not be empty");
  call.request.stop = {*text};
}

// Ids are the keys of an object, in decimal without leading zeros, so that none stands twice.
std::optional<int32_t> parse_id(const std::string& text, uint32_t n_ids) {
  uint32_t id = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
  const bool is_whole = error == std::errc() && end == text.data() + text.size();
  if (!is_whole || id >= n_ids || text != std::to_string(id)) return std::nullopt;
  return static_cast<int32_t>(id);
}

void read_logit_bias(FieldReader& fields, const CallContext& c, TextCall& call) {
  const Json* biases = fields.object("logit_bias", kMaxBiases);
  if (biases == nullptr) return;
  for (const auto& [key, value] : biases->items()) {
    const auto id = parse_id(key, n_vocab(c));
    if (!id) return fields.refuse("logit_bias", "must have token ids of the vocabulary as keys");
    const double bias = value.is_number() ? value.get<double>() : kMaxBias + 1;
    if (bias < -kMaxBias || bias > kMaxBias) {
      return fields.refuse("logit_bias", "must have numbers from -100 to 100 as values");
    }
    call.request.logit_bias.emplace_back(*id, static_cast<float>(bias));
  }
}

void read_streaming(FieldReader& fields, TextCall& call) {
  call.stream = fields.boolean("stream").value_or(false);
  const Json* options = fields.object("stream_options", 16);
  if (options == nullptr) return;
  FieldReader reader(*options, "stream_options.");
  call.include_usage = reader.boolean("include_usage").value_or(false);
  if (reader.has("include_obfuscation") && reader.boolean("include_obfuscation").value_or(false)) {
    reader.refuse("include_obfuscation", "is not supported");
  }
  reader.finish();
  if (reader.refusal()) return fields.refuse(*reader.refusal());
  if (call.include_usage && !call.stream) {
    fields.refuse("stream_options", "asks for usage, which needs 'stream': true");
  }
}

void read_choices(FieldReader& fields, engine::Request& request) {
  const int64_t n = fields.integer("n", 1, kMaxChoices).value_or(1);
  const int64_t best_of = fields.integer("best_of", 1, kMaxChoices).value_or(n);
  if (best_of != n) fields.refuse("best_of", "must be equal to 'n'");
  request.n = static_cast<uint32_t>(n);
}

}  // namespace

void read_generation_fields(FieldReader& fields, const CallContext& c, TextCall& call) {
  engine::Request& r = call.request;
  read_stage_fields(fields, c, call);
  read_chain(fields, call);
  read_stop(fields, call);
  read_logit_bias(fields, c, call);
  read_streaming(fields, call);
  read_choices(fields, r);
  r.min_tokens = static_cast<uint32_t>(fields.integer("min_tokens", 0, kMaxTokens).value_or(0));
  const auto seed = fields.integer("seed", INT64_MIN, INT64_MAX);
  if (seed) call.seed = static_cast<uint64_t>(*seed);
  r.stop_tokens = fields.ids("stop_token_ids", kMaxStopTokens, n_vocab(c)).value_or(r.stop_tokens);
  r.ignore_eos = fields.boolean("ignore_eos").value_or(false);
  r.tenant = c.caller.tenant;
  r.priority = static_cast<int32_t>(
      fields.integer("priority", INT32_MIN, c.caller.max_priority).value_or(c.caller.priority));
  r.cache_salt = fields.text("cache_salt", kMaxSaltBytes).value_or("");
  call.add_bos = fields.boolean("add_special_tokens").value_or(true);
  call.return_token_ids = fields.boolean("return_token_ids").value_or(false);
  // Whom to blame, and where to look for the prompt: nothing of the answer changes by them.
  for (const char* name : {"user", "safety_identifier", "prompt_cache_key"}) {
    fields.text(name, SIZE_MAX);
  }
}

void check_lengths(FieldReader& fields, const TextCall& call) {
  const engine::Request& r = call.request;
  if (r.max_tokens > 0 && r.min_tokens > r.max_tokens) {
    fields.refuse("min_tokens", fmt::format("must be at most {}, the most tokens", r.max_tokens));
  }
}

void check_context(FieldReader& fields, const CallContext& c, const std::string& param,
                   const TextCall& call) {
  const uint32_t context = c.model.engine->context();
  const size_t room = call.request.prompt_only ? context : context - 1;
  for (const Prompt& prompt : call.prompts) {
    if (prompt.ids.empty()) return fields.refuse(param, "must have at least one token");
    if (prompt.ids.size() <= room) continue;
    fields.refuse(
        {400,
         fmt::format("This model's maximum context length is {} tokens. The prompt has "
                     "{} tokens{}",
                     context, prompt.ids.size(),
                     call.request.prompt_only ? "." : ", which leaves no room to answer."),
         param, "context_length_exceeded"});
  }
}

}  // namespace bp::server
