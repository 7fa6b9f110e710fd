-- Wireshark and tshark dissector of the testbed's coded stream and its loss reports (fec/protocol/wire.py), bound to UDP ports 47000 (streams)
-- and 47001 to 47255 (tunnels).
-- tshark -X lua_script:fec/adapters/stream_dissector.lua -r link.pcap      (or copy it into Wireshark's personal plugin folder)

local stream = Proto("testbed_stream", "Coded stream of the parallel communications testbed")

local PORT, LAST_PORT = 47000, 47255
local VERSION = 3
local HEADER_BYTES, REPORT_BYTES, PATH_BYTES = 28, 48, 8
local DATA, PARITY, REPORT = 1, 2, 3
local kinds = { [DATA] = "data", [PARITY] = "parity", [REPORT] = "report" }

local f = stream.fields
f.version = ProtoField.uint8("testbed_stream.version", "Version", base.DEC, nil, 0xf0)
f.kind = ProtoField.uint8("testbed_stream.kind", "Type", base.DEC, kinds, 0x0f)
f.flags = ProtoField.uint8("testbed_stream.flags", "Flags", base.HEX)
f.keyed = ProtoField.bool("testbed_stream.flags.keyed", "Sealed with a key", 8, nil, 0x02)
f.short = ProtoField.bool("testbed_stream.flags.short", "Parity of a block with fewer than M source packets", 8, nil, 0x04)
f.session = ProtoField.uint32("testbed_stream.session", "Session of the sender", base.HEX)
f.seal = ProtoField.bytes("testbed_stream.seal", "BLAKE2b under a key, four bytes (only the ends can check it)")
f.stream_id = ProtoField.uint16("testbed_stream.stream_id", "Stream")
f.block = ProtoField.uint24("testbed_stream.source_block_number", "Source block number")
f.symbol_id = ProtoField.uint8("testbed_stream.encoding_symbol_id", "Encoding symbol id")
f.k = ProtoField.uint16("testbed_stream.source_packets", "Source packets in the block (M; told by the parity of a short block: those that it has)")
f.n = ProtoField.uint8("testbed_stream.block_size", "Packets in the block (N, advisory)")
f.path = ProtoField.uint8("testbed_stream.path", "Path")
f.path_sequence = ProtoField.uint16("testbed_stream.path_sequence", "Number on its path")
f.symbol_length = ProtoField.uint16("testbed_stream.symbol_length", "Symbol length")
f.timestamp = ProtoField.uint32("testbed_stream.timestamp_us", "Time stamp (microseconds)")
f.crc = ProtoField.uint32("testbed_stream.crc", "CRC32", base.HEX)
f.crc_good = ProtoField.bool("testbed_stream.crc.good", "CRC32 matches")
f.symbol = ProtoField.bytes("testbed_stream.symbol", "Symbol")
f.payload_length = ProtoField.uint16("testbed_stream.payload_length", "Length of the payload inside")
f.number = ProtoField.uint32("testbed_stream.report.number", "Report number")
f.newest = ProtoField.uint32("testbed_stream.report.newest_us", "Newest time stamp seen (microseconds)")
f.newest_age = ProtoField.uint32("testbed_stream.report.newest_age_us", "Its age (microseconds)")
f.highest = ProtoField.uint32("testbed_stream.report.highest_block", "Highest block")
f.received = ProtoField.uint32("testbed_stream.report.received", "Packets received")
f.decoded = ProtoField.uint32("testbed_stream.report.decoded_blocks", "Blocks decoded")
f.undecodable = ProtoField.uint32("testbed_stream.report.undecodable_blocks", "Blocks undecodable")
f.unused = ProtoField.uint32("testbed_stream.report.unused_parity", "Parity not needed")
f.listed = ProtoField.uint8("testbed_stream.report.blocks", "Blocks listed")
f.width = ProtoField.uint16("testbed_stream.report.bitmap_bytes", "Bytes of a bitmap")
f.entry = ProtoField.uint32("testbed_stream.report.block", "Block")
f.bitmap = ProtoField.bytes("testbed_stream.report.bitmap", "Symbols that arrived (bitmap)")

f.named = ProtoField.uint8("testbed_stream.report.paths", "Paths listed")
f.report_path = ProtoField.uint8("testbed_stream.report.path", "Path")
f.path_lost = ProtoField.uint24("testbed_stream.report.path_lost", "Lost on it")
f.path_came = ProtoField.uint32("testbed_stream.report.path_came", "Came over it")

local malformed = ProtoExpert.new("testbed_stream.malformed", "Malformed", expert.group.MALFORMED, expert.severity.ERROR)
local wrong_crc = ProtoExpert.new("testbed_stream.wrong_crc", "CRC32 does not match", expert.group.CHECKSUM, expert.severity.ERROR)
stream.experts = { malformed, wrong_crc }

local bits = bit32 or bit
local crc_table = {}
for value = 0, 255 do
    local remainder = value
    for _ = 1, 8 do
        if bits.band(remainder, 1) == 1 then
            remainder = bits.bxor(bits.rshift(remainder, 1), 0xedb88320)
        else
            remainder = bits.rshift(remainder, 1)
        end
    end
    crc_table[value] = remainder
end

-- CRC32 of the packet with its own CRC field (4 bytes from crc_at) taken as zero
local function crc_of(buffer, crc_at)
    local bytes = buffer:bytes()
    local crc = 0xffffffff
    for at = 0, bytes:len() - 1 do
        local byte = (at >= crc_at and at < crc_at + 4) and 0 or bytes:get_index(at)
        crc = bits.bxor(bits.rshift(crc, 8), crc_table[bits.band(bits.bxor(crc, byte), 0xff)])
    end
    return bits.band(bits.bxor(crc, 0xffffffff), 0xffffffff)
end

local function unsigned(value)
    return value % 4294967296
end

local function add_crc(tree, buffer, crc_at)
    local range = buffer(crc_at, 4)
    if bits.band(buffer(1, 1):uint(), 2) == 2 then
        tree:add(f.seal, range)
        return
    end
    local item = tree:add(f.crc, range)
    local good = unsigned(crc_of(buffer, crc_at)) == range:uint()
    tree:add(f.crc_good, range, good):set_generated()
    if not good then
        item:add_proto_expert_info(wrong_crc)
    end
end

local function add_packet(tree, buffer, pinfo)
    local size = HEADER_BYTES
    if buffer:len() < size then
        tree:add_proto_expert_info(malformed, "shorter than its header of " .. size .. " bytes")
        return
    end
    tree:add(f.stream_id, buffer(2, 2))
    tree:add(f.block, buffer(4, 3))
    tree:add(f.symbol_id, buffer(7, 1))
    tree:add(f.session, buffer(8, 4))
    tree:add(f.k, buffer(12, 2))
    tree:add(f.n, buffer(14, 1))
    tree:add(f.path, buffer(15, 1))
    tree:add(f.path_sequence, buffer(16, 2))
    tree:add(f.symbol_length, buffer(18, 2))
    tree:add(f.timestamp, buffer(20, 4))
    add_crc(tree, buffer, 24)
    local length = buffer(18, 2):uint()
    if buffer:len() ~= size + length then
        tree:add_proto_expert_info(malformed, "its length field says " .. (size + length) .. " bytes")
    end
    if buffer:len() > size then
        local symbol = buffer(size)
        local item = tree:add(f.symbol, symbol)
        if symbol:len() >= 2 and buffer(7, 1):uint() < buffer(12, 2):uint() then
            item:add(f.payload_length, symbol(0, 2))
        end
    end
    local kind = kinds[bits.band(buffer(0, 1):uint(), 0x0f)]
    local words = "stream %d, block %d, %s %d of M = %d, N = %d"
    local block, symbol_id = buffer(4, 3):uint(), buffer(7, 1):uint()
    if bits.band(buffer(1, 1):uint(), 4) == 4 then
        words = "stream %d, block %d, %s %d of a short block of %d source packets, N = %d"
    end
    pinfo.cols.info = words:format(buffer(2, 2):uint(), block, kind, symbol_id, buffer(12, 2):uint(), buffer(14, 1):uint())
end

local function add_report(tree, buffer, pinfo)
    if buffer:len() < REPORT_BYTES then
        tree:add_proto_expert_info(malformed, "shorter than a loss report of " .. REPORT_BYTES .. " bytes")
        return
    end
    tree:add(f.stream_id, buffer(2, 2))
    local words = { f.number, f.newest, f.newest_age, f.highest, f.received, f.decoded, f.undecodable, f.unused, f.session }
    for index, field in ipairs(words) do
        tree:add(field, buffer(4 * index, 4))
    end
    tree:add(f.listed, buffer(40, 1))
    tree:add(f.named, buffer(41, 1))
    tree:add(f.width, buffer(42, 2))
    add_crc(tree, buffer, 44)
    local listed, named, width = buffer(40, 1):uint(), buffer(41, 1):uint(), buffer(42, 2):uint()
    local paths_at = REPORT_BYTES + listed * (4 + width)
    if buffer:len() ~= paths_at + named * PATH_BYTES then
        tree:add_proto_expert_info(malformed, "says it lists " .. listed .. " blocks and " .. named .. " paths")
        return
    end
    for index = 0, listed - 1 do
        local at = REPORT_BYTES + index * (4 + width)
        tree:add(f.entry, buffer(at, 4)):add(f.bitmap, buffer(at + 4, width))
    end
    for index = 0, named - 1 do
        local at = paths_at + index * PATH_BYTES
        local item = tree:add(f.report_path, buffer(at, 1))
        item:add(f.path_lost, buffer(at + 1, 3))
        item:add(f.path_came, buffer(at + 4, 4))
    end
    local info = "stream %d, report %d, %d packets received, %d blocks undecodable"
    pinfo.cols.info = info:format(buffer(2, 2):uint(), buffer(4, 4):uint(), buffer(20, 4):uint(), buffer(28, 4):uint())
end

function stream.dissector(buffer, pinfo, root)
    if buffer:len() < 2 or bits.rshift(buffer(0, 1):uint(), 4) ~= VERSION then
        return 0
    end
    local kind = bits.band(buffer(0, 1):uint(), 0x0f)
    if not kinds[kind] then
        return 0
    end
    pinfo.cols.protocol = "STREAM"
    local tree = root:add(stream, buffer())
    tree:add(f.version, buffer(0, 1))
    tree:add(f.kind, buffer(0, 1))
    local flags = tree:add(f.flags, buffer(1, 1))
    flags:add(f.keyed, buffer(1, 1))
    flags:add(f.short, buffer(1, 1))
    if kind == REPORT then
        add_report(tree, buffer, pinfo)
    else
        add_packet(tree, buffer, pinfo)
    end
    return buffer:len()
end

DissectorTable.get("udp.port"):add(PORT .. "-" .. LAST_PORT, stream)

-- A packet's label is its UDP source port, so any port of another protocol may stand beside 47000; Wireshark would ask that protocol
-- first. As a heuristic that is asked before the ports, the stream gets all packets that go to its own ports.
stream:register_heuristic("udp", function(buffer, pinfo, root)
    return pinfo.dst_port >= PORT and pinfo.dst_port <= LAST_PORT and stream.dissector(buffer, pinfo, root) > 0
end)
pcall(set_preference, "udp.try_heuristic_first", true)
