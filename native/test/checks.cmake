# Programs that test the ring on this machine, and controls with a planted bug that has to be found.
include(${CMAKE_CURRENT_LIST_DIR}/mutants.cmake)

# A store that is too weak: the publication may be reordered after the load of the sleep epoch. On
# x86-64 only; AArch64 has the same instructions for both orders.
mutate(weak/producer.cc ring/producer.cc
  "StoreWord(mine_.producer_cursor, published_, std::memory_order_seq_cst);"
  "StoreWord(mine_.producer_cursor, published_, std::memory_order_release)\;")
# A relaxed store: published records may not be visible.
mutate(relaxed/producer.cc ring/producer.cc
  "StoreWord(mine_.producer_cursor, published_, std::memory_order_seq_cst);"
  "StoreWord(mine_.producer_cursor, published_, std::memory_order_relaxed)\;")
# A missing check: a record may be longer than the published bytes.
mutate(unchecked/consumer.cc ring/consumer.cc
  "header.zero != 0 || size > until_end || size > available" "header.zero != 0"
  "header.payload_bytes >= 1 && size <= RecordMaxBytes(capacity_)" "header.payload_bytes >= 1")

set(RING_SOURCES ring/block_allocator.cc ring/lease_table.cc ring/consumer.cc ring/producer.cc ring/ring.cc)

function(add_check name source)
  add_executable(${name} EXCLUDE_FROM_ALL ${source} ${ARGN})
  compile_as_one(${name})
  target_include_directories(${name} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR}/test)
  target_include_directories(${name} SYSTEM PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/third_party)
  # A planted bug leaves variables unused.
  target_compile_options(${name} PRIVATE ${SIDECALL_WARNINGS} -Wno-unused-variable -Wno-unused-parameter)
  target_link_libraries(${name} PRIVATE Threads::Threads)
endfunction()

set(MEMORY_SOURCES os/descriptor.cc os/doorbell.cc os/memory_share.cc os/shared_memory.cc os/unix_socket.cc)
add_check(ring_stress test/programs/ring_stress.cc ${RING_SOURCES} ${MEMORY_SOURCES})
add_check(ring_stress_weak test/programs/ring_stress.cc ${MEMORY_SOURCES}
  ring/block_allocator.cc ring/lease_table.cc ring/consumer.cc ring/ring.cc ${CMAKE_CURRENT_BINARY_DIR}/weak/producer.cc)
add_check(ring_race test/programs/ring_race.cc ${RING_SOURCES})
add_check(ring_race_relaxed test/programs/ring_race.cc
  ring/block_allocator.cc ring/lease_table.cc ring/consumer.cc ring/ring.cc ${CMAKE_CURRENT_BINARY_DIR}/relaxed/producer.cc)
# Its accesses to shared memory are steps of a scheduler. The bugs are arguments.
add_check(ring_schedule test/programs/ring_schedule.cc ${RING_SOURCES})
target_include_directories(ring_schedule BEFORE PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/test/schedule)
add_check(ring_flip test/programs/ring_flip.cc ${RING_SOURCES})
add_check(ring_flip_unchecked test/programs/ring_flip.cc
  ring/block_allocator.cc ring/lease_table.cc ring/producer.cc ring/ring.cc ${CMAKE_CURRENT_BINARY_DIR}/unchecked/consumer.cc)

# A missing check: a message may begin anywhere in the buffers of shmipc-go.
mutate(unchecked/buffer_pool.cc shmipc/buffer_pool.cc
  "slice >= list.region && IsOnGrid(list, slice - list.region)" "slice >= list.region")

if(CMAKE_CXX_COMPILER_ID MATCHES Clang AND SIDECALL_FUZZ)
  add_check(shmipc_fuzz test/fuzz/shmipc_fuzz.cc shmipc/buffer_pool.cc shmipc/queue.cc)
  add_check(shmipc_fuzz_unchecked test/fuzz/shmipc_fuzz.cc shmipc/queue.cc ${CMAKE_CURRENT_BINARY_DIR}/unchecked/buffer_pool.cc)
  foreach(name shmipc_fuzz shmipc_fuzz_unchecked)
    target_compile_options(${name} PRIVATE -fsanitize=fuzzer)
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  endforeach()
  foreach(name ring_fuzz ring_fuzz_unchecked)
    if(name STREQUAL ring_fuzz)
      add_check(${name} test/fuzz/ring_fuzz.cc ${RING_SOURCES})
    else()
      add_check(${name} test/fuzz/ring_fuzz.cc
        ring/block_allocator.cc ring/lease_table.cc ring/producer.cc ring/ring.cc ${CMAKE_CURRENT_BINARY_DIR}/unchecked/consumer.cc)
    endif()
    target_compile_options(${name} PRIVATE -fsanitize=fuzzer)
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  endforeach()
endif()
