// The bugs of the ring's models that a schedule of turns and records can show, and others of the
// kind, in the native sources.
export const ringBugs = [
  {
    name: 'writer-blocks-awake: the wait for space is not announced',
    model: true,
    file: 'native/ring/ring.cc',
    from: 'StoreWord(mine_.space_sleep_epoch, ++space_epoch_, std::memory_order_seq_cst);',
    to: 'StoreWord(mine_.space_sleep_epoch, space_epoch_, std::memory_order_seq_cst);',
  },
  {
    name: 'reader-blocks-awake: the sleep is not announced',
    model: true,
    file: 'native/ring/ring.cc',
    from: 'StoreWord(mine_.data_sleep_epoch, ++data_epoch_, std::memory_order_seq_cst);',
    to: 'StoreWord(mine_.data_sleep_epoch, data_epoch_, std::memory_order_seq_cst);',
  },
  {
    name: 'epoch-restored: waking sets the epoch back',
    model: true,
    file: 'native/ring/ring.cc',
    from: 'StoreWord(mine_.data_sleep_epoch, ++data_epoch_, std::memory_order_relaxed);',
    to: 'StoreWord(mine_.data_sleep_epoch, --data_epoch_, std::memory_order_relaxed);',
  },
  {
    name: 'bytes-swallowed: a doorbell does not wake',
    model: true,
    file: 'src/shm/ring-transport.ts',
    from: '    if (maxMs > 0) this.serve(maxMs);',
    to: '    if (maxMs > 0) return;',
  },
  {
    name: 'bytes-cleared-late: the doorbell is counted behind the new announcement',
    model: true,
    file: 'src/shm/ring-transport.ts',
    from: '    if (!this.#ring.onDoorbell(bytes.length)) {',
    to: '    this.serve(2);\n    this.rest(Number.MAX_SAFE_INTEGER);\n    if (!this.#isOver() && !this.#ring.onDoorbell(bytes.length)) {',
  },
  {
    name: 'one-role-served: a doorbell serves reading only',
    model: true,
    file: 'src/shm/ring-transport.ts',
    from: 'if (this.#isRefusing && !this.#isOver()) this.#lookForRoom();',
    to: '',
  },
  {
    name: 'answer-forgotten: an epoch is rung for again',
    model: true,
    file: 'native/ring/producer.cc',
    from: 'if (epoch % 2 == 0 || epoch == answered_) return false;',
    to: 'if (epoch % 2 == 0) return false;',
  },
  {
    name: 'death-unheard: the end of the socket does not end the ring',
    model: true,
    file: 'src/shm/ring-transport.ts',
    from: "    socket.on('end', () => this.#onPeerGone()).on('close', () => this.#onPeerGone());",
    to: '',
  },
  {
    name: 'padding is one record too short',
    file: 'native/ring/producer.cc',
    from: 'const auto padding = static_cast<std::uint32_t>(until_end - kRecordHeader);',
    to: 'const auto padding = static_cast<std::uint32_t>(until_end - kRecordHeader - kRecordAlign);',
  },
  {
    name: 'space is given back before the last record is copied',
    file: 'native/ring/consumer.cc',
    from: '  consumed_ += RecordBytes(large_payload_bytes_);\n  large_payload_bytes_ = 0;',
    to: '  consumed_ += RecordBytes(large_payload_bytes_) - 0;\n  released_ = consumed_;\n  large_payload_bytes_ = 0;',
  },
  {
    name: 'a full ring is taken for a free one',
    file: 'native/ring/producer.cc',
    from: 'if (total > free()) return {.space = Space::kFull, .wanted = total};',
    to: 'if (total > free() + 16) return {.space = Space::kFull, .wanted = total};',
  },
  {
    name: 'a lease goes back to nobody',
    file: 'native/ring/ring.cc',
    from: '  releases_.push_back(lease_id);',
    to: '  if (lease_id % 2 == 0) releases_.push_back(lease_id);',
  },
];
