#include "bench/cuda/arguments.hpp"

#include <charconv>

#include "backplane/dtype.hpp"

namespace bp::bench {

namespace {

std::optional<uint32_t> number(std::string_view text) {
  uint32_t n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return n;
}

// "decode:1:512" is a name and numbers.
bool split(std::string_view text, std::string_view& name, std::vector<uint32_t>& numbers) {
  const size_t colon = text.find(':');
  name = text.substr(0, colon);
  while (text.find(':') != std::string_view::npos) {
    text.remove_prefix(text.find(':') + 1);
    const auto n = number(text.substr(0, text.find(':')));
    if (!n) return false;
    numbers.push_back(*n);
  }
  return !numbers.empty() && numbers[0] > 0;
}

std::optional<Task> read_task(std::string_view text) {
  std::string_view name;
  std::vector<uint32_t> n;
  if (!split(text, name, n)) return std::nullopt;
  const auto word = [&](size_t i) { return std::to_string(n[i]); };
  if (name == "decode" && n.size() == 2)
    return Task{"decode n " + word(0) + " depth " + word(1), n[0], 0, n[1]};
  if (name == "prefill" && n.size() == 2)
    return Task{"prefill n " + word(0) + " depth " + word(1), 0, n[0], n[1]};
  if (name == "mixed" && n.size() == 3 && n[1] > 0)
    return Task{"mixed n " + word(0) + " and " + word(1) + " depth " + word(2), n[0], n[1], n[2]};
  if (name == "transfer" && n.size() == 1) return Task{"transfer n " + word(0), 0, n[0], 0, true};
  return std::nullopt;
}

bool is_sample(const std::string& how) {
  return how == "best" || how == "draw" || how == "candidates";
}

// An option that takes the word after it.
Status read_value(const std::string& option, const std::string& value, Arguments& out) {
  if (option == "--steps") {
    out.n_steps = number(value).value_or(0);
    return out.n_steps > 0 ? Status() : invalid_argument("--steps is a number from 1 on");
  }
  if (option == "--sample") {
    out.sample = value;
    return is_sample(value) ? Status() : invalid_argument("--sample best, draw or candidates");
  }
  const auto dtype = dtype_from_name(value);
  out.kv = dtype.value_or(BP_DTYPE_NONE);
  return dtype ? Status() : invalid_argument("--kv " + value + " is no dtype");
}

Status read_options(const std::vector<std::string>& words, Arguments& out) {
  for (size_t i = 3; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word == "--steps" || word == "--sample" || word == "--kv") {
      if (++i == words.size()) return invalid_argument(word + " needs a value");
      BP_TRY(read_value(word, words[i], out));
    } else if (word == "--ahead") {
      out.ahead = true;
    } else if (word == "--profile") {
      out.profile = true;
    } else if (word.find('=') != std::string::npos) {
      out.options.set.push_back(word);
    } else if (const auto task = read_task(word)) {
      out.tasks.push_back(*task);
    } else {
      return invalid_argument("\"" + word + "\" is no task");
    }
  }
  return {};
}

}  // namespace

Result<Arguments> read_arguments(const std::vector<std::string>& words) {
  if (words.size() < 3) return invalid_argument("PLUGIN.plugin.yaml SHAPE TYPES are needed");
  const auto shape = find_shape(words[1]);
  const auto mix = find_mix(words[2]);
  if (!shape) return invalid_argument("no shape \"" + words[1] + "\"");
  if (!mix) return invalid_argument("no types \"" + words[2] + "\"");
  Arguments arguments;
  arguments.plugin = words[0], arguments.types = words[2];
  arguments.shape = *shape, arguments.mix = *mix;
  BP_TRY(read_options(words, arguments));
  if (arguments.tasks.empty()) return invalid_argument("no task is given");
  if (arguments.ahead && arguments.sample != "best" && arguments.sample != "draw") {
    return invalid_argument("--ahead needs --sample best or draw");
  }
  return arguments;
}

}  // namespace bp::bench
