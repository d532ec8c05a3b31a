#include "core/model/model_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <barrier>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "backplane/plugin.hpp"
#include "sdk/conformance/support/temporary_folder.hpp"
#include "tests/core/model/support/fake_model.hpp"
#include "tests/support/progress_log.hpp"

namespace bp::model::test {
namespace {

using ::testing::HasSubstr;

class ModelFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = ::testing::TempDir() + "model-file-" + std::to_string(::getpid());
    std::ofstream(path_, std::ios::binary) << std::string(8192, 'x');
  }
  void TearDown() override { std::filesystem::remove(path_); }

  // A fake with one tensor of 16 floats at offset 64 of the file.
  void add_mapped(FakeModel& fake) {
    fake.files = {path_};
    fake.tensor("t", {4, 4});
    fake.entry("t").offset = 64;
  }
  static std::string error_of(const FakeModel& fake) {
    const auto file = fake.open();
    return file.ok() ? std::string() : file.status().message();
  }

  std::string path_;
};

TEST_F(ModelFileTest, MapsTensors) {
  FakeModel fake("gguf");
  add_mapped(fake);
  fake.metadata.u64("answer", 42);
  const auto file = fake.open();
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ((*file)->dialect(), "gguf");
  EXPECT_EQ(*(*file)->metadata().get<int64_t>("answer"), 42);
  EXPECT_NE((*file)->find_metadata("answer"), nullptr);
  EXPECT_EQ((*file)->find_metadata("question"), nullptr);
  EXPECT_EQ((*file)->find_tensor("u"), nullptr);
  const auto data = (*file)->data(*(*file)->find_tensor("t"));
  ASSERT_TRUE(data.ok());
  EXPECT_EQ(data->n_bytes, 64u);
  EXPECT_EQ(*static_cast<const char*>(data->data), 'x');
}

TEST_F(ModelFileTest, ReadsTensorsThatCannotBeMapped) {
  FakeModel fake("gguf");
  fake.tensor("t", {2, 2}, BP_DTYPE_F32, {1, 2, 3, 4});
  const auto file = fake.open();
  ASSERT_TRUE(file.ok()) << file.status().message();
  const auto first = (*file)->data((*file)->tensors()[0]);
  const auto second = (*file)->data((*file)->tensors()[0]);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(first->data, second->data);
  EXPECT_EQ(static_cast<const float*>(first->data)[3], 4.0f);
  fake.can_read = false;
  const auto unreadable = fake.open();
  ASSERT_TRUE(unreadable.ok());
  EXPECT_FALSE((*unreadable)->data((*unreadable)->tensors()[0]).ok());
}

TEST_F(ModelFileTest, ForgetsMetadataAndKeepsTensors) {
  FakeModel fake("gguf");
  add_mapped(fake);
  fake.metadata.u64("answer", 42);
  auto file = fake.open();
  ASSERT_TRUE(file.ok()) << file.status().message();
  (*file)->forget_metadata();
  EXPECT_EQ(fake.n_closed, 1u);
  fake.entry("t") = {};  // the plugin's tables are gone
  EXPECT_TRUE((*file)->metadata().entries().empty());
  EXPECT_EQ((*file)->find_metadata("answer"), nullptr);
  EXPECT_EQ((*file)->dialect(), "gguf");
  const bp_tensor* tensor = (*file)->find_tensor("t");
  ASSERT_NE(tensor, nullptr);
  EXPECT_EQ(view(tensor->name), "t");
  EXPECT_EQ((*file)->data(*tensor)->n_bytes, 64u);
  (*file)->forget_metadata();
  file->reset();
  EXPECT_EQ(fake.n_closed, 1u);
}

TEST_F(ModelFileTest, KeepsThePluginThatReadsTensors) {
  FakeModel fake("gguf");
  add_mapped(fake);
  fake.tensor("u", {2, 2}, BP_DTYPE_F32, {1, 2, 3, 4});
  fake.metadata.u64("answer", 42);
  auto file = fake.open();
  ASSERT_TRUE(file.ok()) << file.status().message();
  (*file)->forget_metadata();
  EXPECT_EQ(fake.n_closed, 0u);
  EXPECT_NE((*file)->find_metadata("answer"), nullptr);
  EXPECT_TRUE((*file)->data(*(*file)->find_tensor("u")).ok());
  file->reset();
  EXPECT_EQ(fake.n_closed, 1u);
}

TEST_F(ModelFileTest, TrustsNoTable) {
  const auto broken = [this](auto change) {
    FakeModel fake("gguf");
    add_mapped(fake);
    change(fake.entry("t"));
    return error_of(fake);
  };
  using Tensor = bp_tensor;
  EXPECT_THAT(
      broken([](Tensor& t) { t.offset = 8192 - 63; }),
      HasSubstr(
          "tensor 't' at offset 8129 with 64 bytes lies beyond the end of the file (8192 bytes)"));
  EXPECT_THAT(broken([](Tensor& t) { t.offset = UINT64_MAX - 1; }), HasSubstr("beyond the end"));
  EXPECT_THAT(broken([](Tensor& t) { t.n_bytes = UINT64_MAX; }), HasSubstr("beyond the end"));
  EXPECT_THAT(broken([](Tensor& t) { t.n_bytes = 60; }),
              HasSubstr("has dimensions [4, 4] of f32 in 60 bytes"));
  EXPECT_THAT(broken([](Tensor& t) { t.dims[0] = uint64_t{1} << 62; }),
              HasSubstr("has dimensions"));
  EXPECT_THAT(broken([](Tensor& t) { t.dims[1] = uint64_t{1} << 62; }), HasSubstr("cannot hold"));
  EXPECT_THAT(broken([](Tensor& t) { t.dims[0] = 0; }), HasSubstr("cannot hold"));
  EXPECT_THAT(broken([](Tensor& t) { t.row_stride_bytes = 8; }),
              HasSubstr("has rows of 16 bytes, 8 bytes apart"));
  EXPECT_THAT(broken([](Tensor& t) { t.dtype = 999; }), HasSubstr("unknown element type 999"));
  EXPECT_THAT(broken([](Tensor& t) { t.dtype = BP_DTYPE_Q4_0; }), HasSubstr("q4_0 cannot hold"));
  EXPECT_THAT(broken([](Tensor& t) { t.n_dims = 5; }), HasSubstr("has 5 dimensions"));
  EXPECT_THAT(broken([](Tensor& t) { t.file = 1; }), HasSubstr("is in file 1 of 1"));
  FakeModel twice("gguf");
  twice.tensor("t", {4}).tensor("u", {4});
  twice.entry("u").name = twice.entry("t").name;
  EXPECT_THAT(error_of(twice), HasSubstr("tensor 't' is there twice"));
}

TEST_F(ModelFileTest, MissingAndEmptyFiles) {
  FakeModel fake("gguf");
  add_mapped(fake);
  std::filesystem::resize_file(path_, 0);
  EXPECT_THAT(error_of(fake), HasSubstr(path_ + ": the file is empty"));
  std::filesystem::remove(path_);
  EXPECT_THAT(error_of(fake), HasSubstr(path_ + ": cannot be opened: No such file"));
}

TEST_F(ModelFileTest, ChoosesTheMostConfidentFormat) {
  const auto format = [](uint32_t (*probe)(const char*, uint32_t, const uint8_t*, uint64_t)) {
    auto table = make_growable<bp_format>();
    table.probe = probe;
    table.open = [](const bp_host*, const char*, bp_model_file**, bp_error* error) -> bp_status {
      return to_c(invalid_argument("opened by probe"), error);
    };
    table.close = [](bp_model_file*) {};
    return table;
  };
  const bp_format certain = format([](const char*, uint32_t, const uint8_t* head, uint64_t n) {
    return n == 4096 && head[0] == 'x' ? 100u : 0u;
  });
  auto doubtful = format([](const char*, uint32_t, const uint8_t*, uint64_t) { return 10u; });
  doubtful.open = nullptr;
  const bp_format never =
      format([](const char*, uint32_t, const uint8_t*, uint64_t) { return 0u; });
  const std::vector<FormatChoice> all = {
      {"doubtful", &doubtful}, {"certain", &certain}, {"never", &never}};
  const auto message = [&](std::span<const FormatChoice> formats, const std::string& path,
                           const std::string& wanted) {
    const auto file = ModelFile::open(path, formats, wanted, nullptr);
    return file.ok() ? std::string() : file.status().message();
  };
  EXPECT_EQ(message(all, path_, "auto"), "opened by probe");
  // One that throws knows nothing, and none is more than certain.
  auto thrower = format([](const char*, uint32_t, const uint8_t*, uint64_t) -> uint32_t {
    throw std::runtime_error("no");
  });
  auto boaster = format([](const char*, uint32_t, const uint8_t*, uint64_t) { return ~0u; });
  boaster.open = nullptr;
  const std::vector<FormatChoice> wrong = {
      {"thrower", &thrower}, {"certain", &certain}, {"boaster", &boaster}};
  EXPECT_EQ(message(wrong, path_, "auto"), "opened by probe");
  thrower.open = [](const bp_host*, const char*, bp_model_file**, bp_error*) -> bp_status {
    throw std::runtime_error("no");
  };
  EXPECT_THAT(message(wrong, path_, "thrower"), HasSubstr("threw an exception"));
  EXPECT_EQ(message(all, path_, "never"), "opened by probe");
  EXPECT_THAT(message(all, path_, "doubtful"), HasSubstr("format 'doubtful' lacks open"));
  EXPECT_THAT(message(all, path_, "nevr"), HasSubstr("format 'nevr' is unknown; nearest: never"));
  EXPECT_THAT(message({&all[2], 1}, path_, "auto"), HasSubstr("in no known format (tried: never)"));
  EXPECT_THAT(message(all, path_ + ".no", "auto"), HasSubstr("no such file or folder"));
}

TEST_F(ModelFileTest, ContentKeyFollowsTheFile) {
  FakeModel fake("gguf");
  add_mapped(fake);
  const std::string key = (*fake.open())->content_key();
  EXPECT_EQ((*fake.open())->content_key(), key);
  std::ofstream(path_, std::ios::binary) << std::string(9000, 'y');
  EXPECT_NE((*fake.open())->content_key(), key);
}

// As by tools that set all times to one: another model of the same form.
TEST_F(ModelFileTest, ContentKeyFollowsTheWeightsWhereTheFileLooksTheSame) {
  FakeModel fake("gguf");
  add_mapped(fake);
  const auto key_of = [&](char byte) {
    std::ofstream(path_, std::ios::binary) << std::string(9000, byte);
    std::filesystem::last_write_time(path_, {});
    return (*fake.open())->content_key();
  };
  const std::string key = key_of('x');
  EXPECT_EQ(key_of('x'), key);
  EXPECT_NE(key_of('y'), key);
}

TEST_F(ModelFileTest, AsksBetweenPiecesOfATensorWhetherToStop) {
  FakeModel fake("gguf");
  fake.tensor("t", {9, 1 << 20});  // four rows of 4 MB are a piece
  const auto file = *fake.open();
  const bp_tensor& tensor = *file->find_tensor("t");
  bp::testing::ProgressLog log;
  log.n_wanted = 3;
  base::WorkProgress stopped(log.c(), 1);
  EXPECT_EQ(file->data(tensor, &stopped).status().code(), Code::kCancelled);
  EXPECT_EQ(fake.n_reads["t"], 2u);
  log.n_wanted = SIZE_MAX;
  base::WorkProgress progress(log.c(), 1);
  EXPECT_TRUE(file->data(tensor, &progress).ok());
  EXPECT_EQ(fake.n_reads["t"], 5u);
  EXPECT_EQ(log.done.size(), 6u);
  file->release(tensor);
  EXPECT_TRUE(file->data(tensor).ok());
  EXPECT_EQ(fake.n_reads["t"], 6u);
}

using ModelFileDeathTest = ModelFileTest;

TEST_F(ModelFileDeathTest, TruncatedWhileInUse) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        install_map_guard();
        FakeModel fake("gguf");
        add_mapped(fake);
        const auto file = *fake.open();
        const auto data = *file->data(*file->find_tensor("t"));
        std::filesystem::resize_file(path_, 0);
        std::filesystem::remove(path_);  // a process that ends here does not tear down
        static_cast<void>(*static_cast<const volatile char*>(data.data));
      },
      ::testing::ExitedWithCode(1),
      "model file .*model-file-.* was truncated or replaced while in use");
}

// As a plugin maps it, and a file beside it that is cut short; each of the threads reads it.
void read_truncated(const std::string& path, int n_threads = 1) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path) << std::string(8192, 'x');
  const int fd = ::open(path.c_str(), O_RDONLY);
  const auto* data =
      static_cast<const volatile char*>(::mmap(nullptr, 8192, PROT_READ, MAP_SHARED, fd, 0));
  std::filesystem::resize_file(path, 0);
  std::barrier start(n_threads);
  const auto read = [&] {
    start.arrive_and_wait();
    static_cast<void>(*data);
  };
  std::vector<std::thread> others;
  for (int i = 1; i < n_threads; ++i) others.emplace_back(read);
  read();
}

TEST_F(ModelFileDeathTest, APluginsFileIsNamed) {
  ::testing::FLAGS_gtest_death_test_style = "fast";  // in this test's folder
  const conformance::TemporaryFolder folder("mapped");
  const std::string prepared = (folder.path() / "m.gguf.cache" / "cpu strips").string();
  EXPECT_EXIT(
      {
        install_map_guard();
        read_truncated(prepared);
      },
      ::testing::ExitedWithCode(1),
      "file of prepared weights .*/m.gguf.cache/cpu strips was truncated or replaced while in use; "
      "delete it, it is made again");
  EXPECT_EXIT(
      {
        std::signal(SIGBUS, SIG_DFL);
        install_map_guard();
        read_truncated((folder.path() / "other").string());
      },
      ::testing::KilledBySignal(SIGBUS),
      "file .*/other, which a plugin has mapped, was truncated or replaced while in use");
}

TEST_F(ModelFileDeathTest, OneOfSeveralThreadsTells) {
  ::testing::FLAGS_gtest_death_test_style = "fast";  // in this test's folder
  const conformance::TemporaryFolder folder("mapped");
  const std::string prepared = (folder.path() / "m.gguf.cache" / "strips").string();
  for (int round = 0; round < 8; ++round) {
    EXPECT_EXIT(
        {
          install_map_guard();
          read_truncated(prepared, 8);
        },
        ::testing::ExitedWithCode(1),
        ::testing::Eq("file of prepared weights " + prepared +
                      " was truncated or replaced while in use; delete it, it is made again\n"));
  }
}

TEST_F(ModelFileDeathTest, OtherBusErrorsStayWhatTheyAre) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        std::signal(SIGBUS, SIG_DFL);
        install_map_guard();
        const auto guarded = *Mapping::open(path_);
        // As Mapping does it, but for the guard.
        const int fd = ::open(path_.c_str(), O_RDONLY);
        const auto* other =
            static_cast<const volatile char*>(::mmap(nullptr, 8192, PROT_READ, MAP_SHARED, fd, 0));
        std::filesystem::resize_file(path_, 0);
        std::filesystem::remove(path_);  // a process that ends here does not tear down
        static_cast<void>(*other);
      },
      ::testing::KilledBySignal(SIGBUS), "");
}

}  // namespace
}  // namespace bp::model::test
