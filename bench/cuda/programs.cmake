# conform, measure and products, and lost but for its fault, for a project that has bp_sdk, bp_flags
# and bp_reference: with g++ alone, and what the conformance tests want of yaml-cpp by a stand-in.
set(BENCH_CUDA ${CMAKE_CURRENT_LIST_DIR})
get_filename_component(ROOT ${BENCH_CUDA}/../.. ABSOLUTE)
set(conformance ${ROOT}/sdk/conformance)
file(GLOB sources CONFIGURE_DEPENDS ${conformance}/support/*.cpp ${conformance}/support/ops/*.cpp
     ${conformance}/probe/*.cpp ${conformance}/levels/abi*.cpp ${conformance}/levels/steps*.cpp
     ${conformance}/levels/errors.cpp ${conformance}/levels/life.cpp ${conformance}/levels/load.cpp
     ${conformance}/levels/ops.cpp ${conformance}/levels/threads.cpp)
list(FILTER sources EXCLUDE REGEX "/backplane_server\\.cpp$")
list(APPEND sources ${conformance}/manifest.cpp ${conformance}/resources.cpp
     ${conformance}/runner.cpp ${conformance}/subject.cpp)
add_library(bench_conformance STATIC ${sources})
target_include_directories(bench_conformance PUBLIC ${BENCH_CUDA}/stand_ins)
target_link_libraries(bench_conformance PUBLIC bp_sdk bp_flags bp_reference Threads::Threads
                      ${CMAKE_DL_LIBS})
set_source_files_properties(${conformance}/resources.cpp PROPERTIES
  COMPILE_DEFINITIONS BACKPLANE_SOURCE_DIR="${ROOT}")

function(add_bench_program name)
  list(TRANSFORM ARGN PREPEND ${BENCH_CUDA}/)
  add_executable(bench_${name} ${ARGN})
  set_target_properties(bench_${name} PROPERTIES OUTPUT_NAME ${name})
  target_link_libraries(bench_${name} PRIVATE bench_conformance)
endfunction()
add_bench_program(conform conform.cpp current_test.cpp)
# As the tool itself: plugins find its counting functions before those of the C library.
foreach(symbol malloc calloc realloc free memalign aligned_alloc posix_memalign mmap mmap64 munmap
        getenv secure_getenv)
  target_link_options(bench_conform PRIVATE -Wl,--export-dynamic-symbol=${symbol})
endforeach()
add_bench_program(measure measure.cpp arguments.cpp step_bench.cpp shapes.cpp)
add_bench_program(products products.cpp shapes.cpp)
add_library(bench_lost OBJECT ${BENCH_CUDA}/lost.cpp)
target_link_libraries(bench_lost PUBLIC bench_conformance)
