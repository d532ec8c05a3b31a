// Pickles: what may be built, what may not, and what each budget is.

#include "fixture.hpp"

#include "formats/pytorch/limits.hpp"
#include "formats/pytorch/pickle.hpp"

namespace bp::pytorch {
namespace {

using namespace pickle;

Result<Unpickled> run(const std::string& body) {
  return unpickle("m", whole(body));
}

TEST(Pickle, BuildsData) {
  const std::string bytes = "\x80\x04\x95" + le(uint64_t{1}) + "}(" +         // a frame
                            "\x8c\x01" + "aK\x07" +                           // "a": 7
                            "\x8d" + le(uint64_t{1}) + "bM\x01\x02" +         // "b": 0x201
                            text("c") + "\x8a\x01\xff" +                      // -1
                            text("d") + "G\x3f\xf8" + std::string(6, '\0') +  // 1.5
                            text("e") + std::string("](\x88\x89N") + "e" +    // [True, False, None]
                            text("f") + ")" + text("g") + "K\1K\2\x86" + "q" +  // (), (1, 2)
                            std::string(1, '\0') + text("h") + "h" + std::string(1, '\0') + "u" +
                            text("i") + "K\5s.";
  const auto result = unpickle("m", bytes);
  ASSERT_TRUE(result.ok()) << result.status().message();
  const Members& members = result->arena.dicts[std::get<Ref>(result->root).index];
  ASSERT_EQ(members.size(), 9u);
  const auto value = [&](size_t i) { return members[i].second; };
  EXPECT_EQ(std::get<std::string_view>(members[0].first), "a");
  EXPECT_EQ(std::get<int64_t>(value(0)), 7);
  EXPECT_EQ(std::get<int64_t>(value(1)), 0x201);
  EXPECT_EQ(std::get<int64_t>(value(2)), -1);
  EXPECT_EQ(std::get<double>(value(3)), 1.5);
  const auto& list = result->arena.sequences[std::get<Ref>(value(4)).index];
  ASSERT_EQ(list.size(), 3u);
  EXPECT_TRUE(std::get<bool>(list[0]));
  EXPECT_TRUE(std::holds_alternative<std::monostate>(list[2]));
  EXPECT_EQ(std::get<Ref>(value(7)).index, std::get<Ref>(value(6)).index);
}

TEST(Pickle, CyclesAreData) {
  const auto result = run("]q" + std::string(1, '\0') + "h" + std::string(1, '\0') + "a");
  EXPECT_TRUE(result.ok()) << result.status().message();
}

struct Refused {
  const char* name;
  std::string body;
  const char* rule;
};

const std::string kStorage = storage("FloatStorage", "0", 6);

const Refused kRefused[] = {
    {"os_system", call(global("os", "system"), {text("true")}), "calls for \"os\" \"system\""},
    {"builtins", global("builtins", "eval"), "which is none of a state dict"},
    {"torch_load", global("torch", "load"), "convert it to safetensors"},
    {"name_with_dots", global("torch", "_utils._rebuild_tensor_v2"), "which is none"},
    {"module_alone", global("torch._utils", ""), "which is none"},
    {"stack_global", text("posix") + text("system") + "\x93", "calls for \"posix\""},
    {"stack_global_number", "K\1K\2\x93", "a global without a name"},
    {"global_without_end", "c" + std::string(400, 'x'), "without an end"},
    {"inst", "(iposix\nsystem\n", "opcode 0x69"},
    {"obj", "(o", "opcode 0x6f"},
    {"newobj", global("collections", "OrderedDict") + ")\x81", "opcode 0x81"},
    {"extension", "\x82\x01", "opcode 0x82"},
    {"persistent_text", "Px\n", "opcode 0x50"},
    {"bytes", "C\1x", "opcode 0x43"},
    {"set", "\x8f", "opcode 0x8f"},
    {"buffer", "\x97", "opcode 0x97"},
    {"old_text", "S'x'\n", "opcode 0x53"},
    {"call_no_function", "})R", "what is called is no function"},
    {"call_storage_class", global("torch", "FloatStorage") + ")R", "which is no function"},
    {"call_dtype", global("torch", "float16") + ")R", "which is no function"},
    {"call_without_tuple", global("collections", "OrderedDict") + "]R", "a tuple must lie"},
    {"ordered_dict_of_items", call(global("collections", "OrderedDict"), {"]"}), "with arguments"},
    {"size_of_number", call(global("torch", "Size"), {"K\1"}), "other than a tuple"},
    {"parameter_of_list", call(global("torch._utils", "_rebuild_parameter"), {"]", "\x89", "}"}),
     "other than a tensor"},
    {"build_on_dict", "}}b", "state is set on what is no OrderedDict"},
    {"build_with_list", ordered_dict() + "]b", "state is set"},
    {"mark_missing", "t", "no mark"},
    {"below_mark", "K\1(\x85", "too few values"},
    {"empty_stack", "\x85", "too few values"},
    {"stop_early", "", "must end with one value"},
    {"stop_with_two", "NN", "must end with one value"},
    {"stop_with_mark", "N(", "must end with one value"},
    {"append_to_tuple", ")Na", "no list"},
    {"items_of_list", "]NNs", "no dict"},
    {"half_an_item", "}(Nu", "half of one"},
    {"text_beyond", "X" + le(uint32_t{1000}), "1000 bytes must lie here"},
    {"text_huge", "\x8d" + le(UINT64_MAX), "bytes must lie here"},
    {"text_not_utf8", text("\xff"), "not UTF-8"},
    {"text_surrogate", text("\xed\xa0\x80"), "not UTF-8"},
    {"frame_beyond", "\x95" + le(uint64_t{1000}), "a frame beyond"},
    {"number_huge", "\x8a\x09" + std::string(9, '\1'), "more than 64 bits"},
    {"memo_gap", "Nq\5", "out of order"},
    {"memo_gap_long", "Nr" + le(UINT32_MAX), "out of order"},
    {"memo_empty", "h" + std::string(1, '\0'), "holds no value 0"},
    {"memo_of_nothing", "q" + std::string(1, '\0'), "too few values"},
    {"id_of_other", tuple({text("module"), "N", "N", "N", "N"}) + "Q", "names no storage"},
    {"id_short", tuple({text("storage")}) + "Q", "names no storage"},
    {"id_of_function",
     tuple({text("storage"), global("torch", "Size"), text("0"), text("cpu"), "K\1"}) + "Q",
     "other types"},
    {"id_without_key",
     tuple({text("storage"), global("torch", "IntStorage"), "K\1", text("cpu"), "K\1"}) + "Q",
     "other types"},
    {"storage_negative", storage("FloatStorage", "0", -1), "a storage of -1"},
    {"storage_huge", storage("FloatStorage", "0", INT64_MAX), "a storage of"},
    {"tensor_short", call(global("torch._utils", "_rebuild_tensor_v2"), {kStorage}),
     "rebuilt of 1 values"},
    {"tensor_of_list",
     call(global("torch._utils", "_rebuild_tensor_v2"),
          {"]", number(0), numbers({1}), numbers({1}), "\x89", ordered_dict()}),
     "rebuilt of values of other types"},
    {"tensor_offset_negative", tensor(kStorage, -1, {1}, {1}), "other types"},
    {"tensor_offset_beyond", tensor(kStorage, 6, {1}, {1}), "does not lie in its storage of 6"},
    {"tensor_too_long", tensor(kStorage, 0, {7}, {1}), "does not lie"},
    {"tensor_stride_beyond", tensor(kStorage, 0, {2}, {6}), "does not lie"},
    {"tensor_expanded", tensor(kStorage, 0, {7, 1}, {0, 1}), "does not lie"},
    {"tensor_stride_negative", tensor(kStorage, 5, {2}, {-1}), "no whole number of 0"},
    {"tensor_dim_negative", tensor(kStorage, 0, {-1}, {1}), "no whole number of 0"},
    {"tensor_dim_huge", tensor(kStorage, 0, {int64_t{1} << 41}, {0}), "no whole number of 0"},
    {"tensor_stride_overflows",
     tensor(kStorage, 0, {int64_t{1} << 20, int64_t{1} << 28}, {int64_t{1} << 47, 1}), "too large"},
    {"tensor_size_overflows", tensor(kStorage, 0, {int64_t{1} << 40, int64_t{1} << 40}, {0, 0}),
     "too large"},
    {"tensor_dims_and_strides", tensor(kStorage, 0, {1, 1}, {1}), "unequal lengths"},
    {"tensor_untyped", tensor(storage("UntypedStorage", "0", 4), 0, {1}, {1}), "without a type"},
    {"v3_typed",
     call(global("torch._utils", "_rebuild_tensor_v3"),
          {kStorage, number(0), numbers({1}), numbers({1}), "\x89", ordered_dict(),
           global("torch", "uint16")}),
     "must name its type"},
    {"v3_beyond",
     call(global("torch._utils", "_rebuild_tensor_v3"),
          {storage("UntypedStorage", "0", 5), number(0), numbers({3}), numbers({1}), "\x89",
           ordered_dict(), global("torch", "uint16")}),
     "does not lie in its storage of 2"},
};

class RefusedPickle : public testing::TestWithParam<Refused> {};

TEST_P(RefusedPickle, IsASentence) {
  expect_refused(run(GetParam().body).status(), GetParam().rule);
}

INSTANTIATE_TEST_SUITE_P(All, RefusedPickle, testing::ValuesIn(kRefused),
                         [](const auto& parameter) { return std::string(parameter.param.name); });

TEST(Pickle, ProtocolIsKnown) {
  for (const char protocol : {'\0', '\1', '\6', '\xff'}) {
    expect_refused(unpickle("m", std::string("\x80") + protocol + "N.").status(),
                   "read are 2 to 5");
  }
  expect_refused(unpickle("m", "N.").status(), "begin with its protocol");
  expect_refused(unpickle("m", "").status(), "must lie here");
  expect_refused(unpickle("m", "\x80\x02N.N").status(), "behind the end");
}

std::string times(size_t n, const std::string& body) {
  std::string all;
  all.reserve(n * body.size());
  for (size_t i = 0; i < n; ++i) all += body;
  return all;
}

TEST(Pickle, EverythingThatGrowsHasABudget) {
  expect_refused(run(times(kMaxStack + 1, "N")).status(), "too many values on the stack");
  expect_refused(run(times(kMaxMarks + 1, "(")).status(), "nested too deeply");
  expect_refused(run("]" + times(kMaxInstructions / 2, "Na")).status(), "instructions");
  expect_refused(run("N" + times(kMaxMemo + 1, "\x94")).status(), "the memo is filled");
}

}  // namespace
}  // namespace bp::pytorch
