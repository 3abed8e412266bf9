-- SPDX-License-Identifier: MIT
-- Shows the recordings of sidecall in Wireshark and tshark. `npx sidecall inspect FILE --pcapng OUT`
-- writes them: a packet of the link type USER0 for each frame, without its payload.
--
--   wireshark -X lua_script:sidecall.lua OUT

local sidecall = Proto("sidecall", "sidecall")

local events = { [1] = "sent", [2] = "received", [3] = "session began", [4] = "session ended", [5] = "running" }
local types = {
  [1] = "method", [2] = "open", [3] = "message", [4] = "fragment", [5] = "headers", [6] = "end",
  [7] = "reset", [8] = "credit", [9] = "goaway", [10] = "ping", [11] = "pong", [12] = "clock",
}
local kinds = {
  [1] = "unary", [2] = "notification", [3] = "serverStream", [4] = "clientStream", [5] = "bidi",
  [6] = "channel", [7] = "duplex",
}
local reasons = { [1] = "cancelled", [2] = "deadlineExceeded", [3] = "limitStreams", [4] = "goingAway" }
local statuses = {
  [0] = "ok", "cancelled", "unknown", "invalid_argument", "deadline_exceeded", "not_found",
  "already_exists", "permission_denied", "resource_exhausted", "failed_precondition", "aborted",
  "out_of_range", "unimplemented", "internal", "unavailable", "data_loss", "unauthenticated",
}

local f = sidecall.fields
f.version = ProtoField.uint8("sidecall.version", "Version of this packet")
f.event = ProtoField.uint8("sidecall.event", "Event", base.DEC, events)
f.session = ProtoField.uint32("sidecall.session", "Session")
f.type = ProtoField.uint8("sidecall.type", "Frame type", base.DEC, types)
f.flags = ProtoField.uint8("sidecall.flags", "Flags", base.HEX)
f.from_opener = ProtoField.bool("sidecall.flags.from_opener", "Sent by the opener of the stream", 8, nil, 0x01)
f.last = ProtoField.bool("sidecall.flags.end", "Ends its half", 8, nil, 0x02)
f.streamed = ProtoField.bool("sidecall.flags.streamed", "Message of a stream", 8, nil, 0x04)
f.beyond = ProtoField.bool("sidecall.flags.beyond", "Beyond the window of all streams", 8, nil, 0x08)
f.kind = ProtoField.uint16("sidecall.kind", "Kind of the call", base.DEC, kinds)
f.status = ProtoField.uint16("sidecall.status", "Status", base.DEC, statuses)
f.reason = ProtoField.uint16("sidecall.reason", "Reason", base.DEC, reasons)
f.slot = ProtoField.uint32("sidecall.slot", "Slot")
f.generation = ProtoField.uint32("sidecall.generation", "Generation")
f.stream = ProtoField.string("sidecall.stream", "Stream")
f.payload = ProtoField.uint32("sidecall.payload", "Bytes behind the header")
f.grant = ProtoField.uint32("sidecall.grant", "Bytes granted")
f.pid = ProtoField.uint32("sidecall.pid", "Process of the peer")
f.running = ProtoField.uint32("sidecall.running", "Milliseconds since the handler was called")
f.method = ProtoField.string("sidecall.method", "Method")
local malformed = ProtoExpert.new("sidecall.malformed", "This is no packet of a recording", expert.group.MALFORMED, expert.severity.ERROR)
sidecall.experts = { malformed }

local head_bytes = 28

function sidecall.dissector(buffer, pinfo, tree)
  pinfo.cols.protocol = "sidecall"
  local root = tree:add(sidecall, buffer())
  if buffer:len() < head_bytes or buffer(0, 1):uint() ~= 1
    or buffer:len() < head_bytes + buffer(2, 2):le_uint() then
    root:add_proto_expert_info(malformed)
    return buffer:len()
  end
  local event = buffer(1, 1):uint()
  local type = buffer(8, 1):uint()
  local value = buffer(24, 4)
  local name_bytes = buffer(2, 2):le_uint()
  local name = name_bytes > 0 and buffer(head_bytes, name_bytes):string(ENC_UTF_8) or ""
  local stream = buffer(12, 4):le_uint() .. "." .. buffer(16, 4):le_uint()
  root:add(f.version, buffer(0, 1))
  root:add(f.event, buffer(1, 1))
  root:add_le(f.session, buffer(4, 4))
  local words = { events[event] or "unknown" }
  if event == 3 then
    root:add_le(f.pid, buffer(12, 4))
    table.insert(words, "with process " .. buffer(12, 4):le_uint())
  elseif event == 5 then
    root:add(f.stream, buffer(12, 8), stream)
    root:add_le(f.kind, buffer(10, 2))
    root:add_le(f.running, value)
    table.insert(words, stream .. " " .. name .. " for " .. value:le_uint() .. " ms")
  elseif event ~= 4 then
    root:add(f.type, buffer(8, 1))
    local flags = root:add(f.flags, buffer(9, 1))
    for _, field in ipairs({ f.from_opener, f.last, f.streamed, f.beyond }) do
      flags:add(field, buffer(9, 1))
    end
    table.insert(words, types[type] or ("type " .. type))
    if type == 2 then root:add_le(f.kind, buffer(10, 2)) end
    if type == 6 then root:add_le(f.status, buffer(10, 2)) end
    if type == 7 then root:add_le(f.reason, buffer(10, 2)) end
    root:add_le(f.slot, buffer(12, 4))
    root:add_le(f.generation, buffer(16, 4))
    if buffer(16, 4):le_uint() ~= 0 then
      root:add(f.stream, buffer(12, 8), stream)
      table.insert(words, stream)
    end
    root:add_le(f.payload, buffer(20, 4))
    local payload = buffer(20, 4):le_uint()
    if payload > 0 then table.insert(words, "payload " .. payload) end
    if type == 8 then
      root:add_le(f.grant, value)
      table.insert(words, "grants " .. value:le_uint())
    end
    if name ~= "" then table.insert(words, name) end
  end
  if name ~= "" then root:add(f.method, buffer(head_bytes, name_bytes)) end
  pinfo.cols.info = table.concat(words, " ")
  return buffer:len()
end

DissectorTable.get("wtap_encap"):add(wtap.USER0, sidecall)
