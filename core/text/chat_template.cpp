#include "core/text/chat_template.hpp"

#include <cstdio>
#include <nlohmann/json.hpp>

namespace bp::text {

namespace {

bool is_word_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

}  // namespace

ChatTemplate::ChatTemplate(std::map<std::string, jinja::Template> templates, TokenTexts tokens,
                           std::string source)
    : templates_(std::move(templates)), tokens_(std::move(tokens)), source_(std::move(source)) {
  message_form_ = find_message_form(*this);
}

bool ChatTemplate::mentions(std::string_view variable) const {
  for (size_t at = source_.find(variable); at != std::string::npos;
       at = source_.find(variable, at + 1)) {
    const size_t end = at + variable.size();
    const bool begins = at == 0 || !is_word_char(source_[at - 1]);
    if (begins && (end == source_.size() || !is_word_char(source_[end]))) return true;
  }
  return false;
}

Result<ChatTemplate> ChatTemplate::create(std::string source, TokenTexts tokens) {
  return create({{"default", std::move(source)}}, std::move(tokens));
}

Result<ChatTemplate> ChatTemplate::create(const std::vector<NamedTemplate>& templates,
                                          TokenTexts tokens) {
  std::map<std::string, jinja::Template> parsed;
  std::string sources;
  for (const NamedTemplate& named : templates) {
    sources += named.source;
    sources += '\n';
    auto result = jinja::Template::parse(named.source);
    if (!result.ok()) return result.status().with_context("chat template '" + named.name + "'");
    if (!parsed.emplace(named.name, std::move(result).value()).second) {
      return invalid_argument("two chat templates are named '" + named.name + "'");
    }
  }
  if (parsed.empty()) return invalid_argument("there is no chat template");
  if (parsed.size() > 1 && !parsed.count("default")) {
    return invalid_argument("none of the chat templates is named 'default'");
  }
  return ChatTemplate(std::move(parsed), std::move(tokens), std::move(sources));
}

const jinja::Template& ChatTemplate::choose(const nlohmann::ordered_json& variables) const {
  const auto with_tools = templates_.find("tool_use");
  const auto plain = templates_.find("default");
  const bool has_tools = !variables.at("tools").is_null();
  if (with_tools != templates_.end() && (has_tools || plain == templates_.end())) {
    return with_tools->second;
  }
  return plain != templates_.end() ? plain->second : templates_.begin()->second;
}

Result<std::string> ChatTemplate::render(const nlohmann::ordered_json& request, const std::tm& now,
                                         const jinja::Mark* mark) const {
  jinja::RenderOptions options;
  options.now = now;
  options.mark = mark;
  return render(request, options);
}

Result<std::string> ChatTemplate::render(const nlohmann::ordered_json& request,
                                         const jinja::RenderOptions& options) const {
  if (!request.is_object()) return invalid_argument("a chat request is a JSON object");
  nlohmann::ordered_json variables = request;
  if (!variables.contains("tools")) variables["tools"] = nullptr;
  if (!variables.contains("add_generation_prompt")) variables["add_generation_prompt"] = false;
  for (const auto& [name, text] : tokens_) {
    if (!variables.contains(name)) variables[name] = text;
  }
  return choose(variables).render(variables, options);
}

std::tm local_clock() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  return local;
}

Result<std::tm> parse_clock(std::string_view iso_time) {
  const std::string text(iso_time);
  std::tm clock{};
  int read = 0;
  const int fields =
      std::sscanf(text.c_str(), "%4d-%2d-%2d%n%*1[T ]%2d:%2d:%2d%n", &clock.tm_year, &clock.tm_mon,
                  &clock.tm_mday, &read, &clock.tm_hour, &clock.tm_min, &clock.tm_sec, &read);
  std::tm normalized = clock;
  normalized.tm_year = clock.tm_year -= 1900;
  normalized.tm_mon = clock.tm_mon -= 1;
  const bool complete = (fields == 3 || fields == 6) && read == static_cast<int>(text.size());
  if (!complete || timegm(&normalized) == -1 || normalized.tm_mday != clock.tm_mday ||
      normalized.tm_mon != clock.tm_mon || normalized.tm_hour != clock.tm_hour ||
      normalized.tm_min != clock.tm_min || normalized.tm_sec != clock.tm_sec) {
    return invalid_argument("'" + text + "' is not a time such as 2026-01-15T12:00:00");
  }
  normalized.tm_isdst = -1;
  return normalized;
}

Result<std::tm> take_clock(nlohmann::ordered_json& request) {
  if (!request.is_object() || !request.contains("now")) return local_clock();
  if (!request["now"].is_string()) return invalid_argument("'now' is not a string");
  const std::string now = request["now"].get<std::string>();
  request.erase("now");
  return parse_clock(now);
}

}  // namespace bp::text
