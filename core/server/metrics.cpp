#include "core/server/metrics.hpp"

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <ctime>
#include <limits>
#include <utility>

#include "core/engine/stats.hpp"

namespace bp::server {

namespace {

using engine::Count;
using engine::Stats;
using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

constexpr const char* kModel = "model";
constexpr const char* kVllmModel = "model_name";

const Stats& stats_of(const ModelEntry& entry) {
  return entry.model->engine->stats();
}

double kv_usage(const Stats& stats) {
  const uint64_t blocks = std::max<uint64_t>(stats.kv_blocks.get(), 1);
  return static_cast<double>(stats.kv_blocks_used.get()) / static_cast<double>(blocks);
}

class Families {
 public:
  explicit Families(const std::vector<ModelEntry>& models) {
    for (const ModelEntry& entry : models) {
      if (entry.model != nullptr) models_.push_back(&entry);
    }
  }

  void add_histogram(const char* name, const char* help, engine::Histogram Stats::*member) {
    MetricFamily& family = add(name, help, MetricType::Histogram);
    for (const ModelEntry* entry : models_) {
      ClientMetric metric = labelled(kModel, *entry);
      fill((stats_of(*entry).*member).read(), metric.histogram);
      family.metric.push_back(std::move(metric));
    }
  }
  void add_counter(const char* name, const char* help, Count Stats::*member) {
    MetricFamily& family = add(name, help, MetricType::Counter);
    for (const ModelEntry* entry : models_) {
      ClientMetric metric = labelled(kModel, *entry);
      metric.counter.value = static_cast<double>((stats_of(*entry).*member).get());
      family.metric.push_back(std::move(metric));
    }
  }
  void add_gauge(const char* name, const char* help, const char* model_label,
                 double (*value)(const Stats&)) {
    MetricFamily& family = add(name, help, MetricType::Gauge);
    for (const ModelEntry* entry : models_) {
      ClientMetric metric = labelled(model_label, *entry);
      metric.gauge.value = value(stats_of(*entry));
      family.metric.push_back(std::move(metric));
    }
  }
  void add_finished() {
    static constexpr std::pair<engine::FinishReason, const char*> kReasons[] = {
        {engine::FinishReason::kStop, "stop"},
        {engine::FinishReason::kLength, "length"},
        {engine::FinishReason::kCancelled, "cancelled"},
        {engine::FinishReason::kError, "error"}};
    MetricFamily& family =
        add("backplane_requests_total", "Choices that ended.", MetricType::Counter);
    for (const ModelEntry* entry : models_) {
      for (const auto& [reason, text] : kReasons) {
        ClientMetric metric = labelled(kModel, *entry);
        metric.label.push_back({"finish_reason", text});
        const Count& count = stats_of(*entry).finished[static_cast<size_t>(reason)];
        metric.counter.value = static_cast<double>(count.get());
        family.metric.push_back(std::move(metric));
      }
    }
  }
  void add_cache_config() {
    MetricFamily& family =
        add("vllm:cache_config_info", "Sizes of the KV cache, as labels.", MetricType::Gauge);
    for (const ModelEntry* entry : models_) {
      ClientMetric metric = labelled(kVllmModel, *entry);
      const Stats& stats = stats_of(*entry);
      metric.label.push_back({"block_size", std::to_string(stats.kv_block_size.get())});
      metric.label.push_back({"num_gpu_blocks", std::to_string(stats.kv_blocks.get())});
      metric.gauge.value = 1;
      family.metric.push_back(std::move(metric));
    }
  }

  // Routers take the newest series; there are no adapters to name.
  void add_lora_info() {
    MetricFamily& family =
        add("vllm:lora_requests_info", "Adapters in use, as labels.", MetricType::Gauge);
    for (const ModelEntry* entry : models_) {
      ClientMetric metric = labelled(kVllmModel, *entry);
      for (const char* name : {"running_lora_adapters", "waiting_lora_adapters"}) {
        metric.label.push_back({name, ""});
      }
      metric.label.push_back({"max_lora", "0"});
      metric.gauge.value = static_cast<double>(std::time(nullptr));
      family.metric.push_back(std::move(metric));
    }
  }

  [[nodiscard]] std::string text() const {
    return prometheus::TextSerializer().Serialize(families_);
  }

 private:
  MetricFamily& add(const char* name, const char* help, MetricType type) {
    return families_.emplace_back(MetricFamily{name, help, type, {}});
  }
  static ClientMetric labelled(const char* label, const ModelEntry& entry) {
    ClientMetric metric;
    metric.label.push_back({label, entry.id});
    return metric;
  }
  static void fill(const engine::Histogram::Reading& reading, ClientMetric::Histogram& histogram) {
    for (size_t i = 0; i < reading.counts.size(); ++i) {
      histogram.sample_count += reading.counts[i];
      const double bound =
          i < reading.bounds.size() ? reading.bounds[i] : std::numeric_limits<double>::infinity();
      histogram.bucket.push_back({histogram.sample_count, bound});
    }
    histogram.sample_sum = reading.sum;
  }

  std::vector<const ModelEntry*> models_;
  std::vector<MetricFamily> families_;
};

void add_histograms(Families& f) {
  f.add_histogram("backplane_time_to_first_token_seconds", "From arrival to the first token.",
                  &Stats::time_to_first_token_s);
  f.add_histogram("backplane_inter_token_latency_seconds", "Between two tokens of a choice.",
                  &Stats::inter_token_latency_s);
  f.add_histogram("backplane_e2e_request_latency_seconds", "From arrival to a choice's end.",
                  &Stats::e2e_latency_s);
  f.add_histogram("backplane_request_queue_time_seconds", "From arrival to the first step.",
                  &Stats::queue_time_s);
  f.add_histogram("backplane_request_prefill_time_seconds",
                  "From the first step to the first token.", &Stats::prefill_time_s);
  f.add_histogram("backplane_request_decode_time_seconds", "From the first token to the last.",
                  &Stats::decode_time_s);
  f.add_histogram("backplane_request_prompt_tokens", "Tokens of a prompt.", &Stats::prompt_tokens);
  f.add_histogram("backplane_request_generation_tokens", "Tokens of a choice.",
                  &Stats::generation_tokens);
  f.add_histogram("backplane_step_tokens", "Tokens computed in a step.", &Stats::step_tokens);
  f.add_histogram("backplane_step_seconds", "Duration of a step.", &Stats::step_s);
}

void add_counters(Families& f) {
  f.add_counter("backplane_prompt_tokens_total", "Prompt tokens, computed or cached.",
                &Stats::prompt_tokens_total);
  f.add_counter("backplane_generation_tokens_total", "Tokens generated.",
                &Stats::generation_tokens_total);
  f.add_finished();
  f.add_counter("backplane_preemptions_total", "Sequences that gave up their blocks.",
                &Stats::preemptions);
  f.add_counter("backplane_invalid_decisions_total",
                "Decisions of the scheduler replaced by first come, first served.",
                &Stats::invalid_decisions);
  f.add_counter("backplane_prefix_cache_queries_total", "Tokens looked up in the prefix cache.",
                &Stats::prefix_cache_queries);
  f.add_counter("backplane_prefix_cache_hits_total", "Tokens found in the prefix cache.",
                &Stats::prefix_cache_hits);
  f.add_counter("backplane_kv_swap_out_blocks_total", "KV blocks kept in host memory.",
                &Stats::swap_out_blocks);
  f.add_counter("backplane_kv_swap_in_blocks_total", "KV blocks brought back from host memory.",
                &Stats::swap_in_blocks);
  f.add_counter("backplane_kv_swap_out_bytes_total", "Bytes kept in host memory.",
                &Stats::swap_out_bytes);
  f.add_counter("backplane_kv_swap_in_bytes_total", "Bytes brought back from host memory.",
                &Stats::swap_in_bytes);
  f.add_counter("backplane_kv_swap_refused_total", "Preempted sequences that found no room.",
                &Stats::swap_refused);
  f.add_counter("backplane_kv_swap_failures_total", "Swaps that failed in the backend.",
                &Stats::swap_failures);
}

double running(const Stats& s) {
  return static_cast<double>(s.requests_running.get());
}
double waiting(const Stats& s) {
  return static_cast<double>(s.requests_waiting.get());
}
double swap_used(const Stats& s) {
  return static_cast<double>(s.swap_used_bytes.get());
}
double kv_blocks(const Stats& s) {
  return static_cast<double>(s.kv_blocks.get());
}

void add_gauges(Families& f) {
  f.add_gauge("backplane_requests_running", "Choices that hold KV blocks.", kModel, running);
  f.add_gauge("backplane_requests_waiting", "Choices that wait for KV blocks.", kModel, waiting);
  f.add_gauge("backplane_kv_cache_usage_ratio", "Part of the KV blocks held by sequences.", kModel,
              kv_usage);
  f.add_gauge("backplane_kv_blocks", "KV blocks that sequences can have.", kModel, kv_blocks);
  f.add_gauge("backplane_kv_swap_bytes", "Host memory that holds preempted sequences.", kModel,
              swap_used);
  f.add_gauge("vllm:num_requests_running", "Choices that hold KV blocks.", kVllmModel, running);
  f.add_gauge("vllm:num_requests_waiting", "Choices that wait for KV blocks.", kVllmModel, waiting);
  f.add_gauge("vllm:kv_cache_usage_perc", "Part of the KV blocks held by sequences.", kVllmModel,
              kv_usage);
  f.add_cache_config();
  f.add_lora_info();
}

}  // namespace

std::string metrics_text(const std::vector<ModelEntry>& models) {
  Families families(models);
  add_histograms(families);
  add_counters(families);
  add_gauges(families);
  return families.text();
}

}  // namespace bp::server
