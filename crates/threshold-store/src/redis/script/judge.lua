-- Judges batches one after the other and charges each: all of it or nothing. Mirrors the transition of threshold-core
-- and says no more than whether each was charged, when, and what it found; the numbers for callers are worked out from
-- that.
--
-- KEYS     the keys of all batches, each once
-- ARGV[1]  the number of batches, 1 if there are lists + 2 to be told which server this is; then for each batch 1 to charge or 2 to look, and the number of
--          its steps; then each step in 76 bytes: what, 1 if it only observes + 2 if it only checks, the number of its
--          key, and up to nine numbers
-- ARGV[2]  for tests: the time, and ARGV[3] until when all states live; last, if asked which server this is, those that are
--          known: another one judges nothing
-- Returns  the time, then for each batch 1 if it was charged, and for each of its steps what was found of its key; or
--          the time and which server this is, if it is not known
local call, read, write, floor, format = redis.call, struct.unpack, struct.pack, math.floor, string.format
local blob, now, lives = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
if not now then
  now = call('TIME')
  now = now[1] * 1000000 + now[2]
end
local batches, wishes, position = read('<HB', blob)
if wishes > 1 then
  -- Another one than before may not know what the one before had promised.
  local server = string.match(call('INFO', 'server'), 'run_id:(%w+)')
  if not string.find(ARGV[#ARGV], server, 1, true) then
    return { now, server }
  end
end

local raw = call('MGET', unpack(KEYS))
-- A state is three numbers, and until when it lives: longer than it must, because to say so anew costs a third of a step.
local ats, firsts, seconds, lasts, dirty = {}, {}, {}, {}, {}
for k = 1, #KEYS do
  if raw[k] then
    ats[k], firsts[k], seconds[k], lasts[k] = read('<dddd', raw[k])
  else
    ats[k], firsts[k], seconds[k], lasts[k] = 0, 0, 0, 0
  end
end

local carry, judge_list, settle_lists
if wishes % 2 == 1 then
  judge_list, settle_lists = lists(blob, now, lives)
end

local reply, replies = { now }, 1
for _ = 1, batches do
  local op, steps
  op, steps, position = read('<BH', blob, position)
  local start, undo, refused = position, {}, false
  replies = replies + 1
  local verdict = replies
  for _ = 1, steps do
    local what, flags, k, a, b, c, d, e, f = read('<BBHdddddd', blob, position)
    local at, first, second = ats[k], firsts[k], seconds[k]
    local admitted = false
    if what == 1 then -- a bucket: price, depth, per, mark
      if at < now then
        at, first = now, 0
      elseif second ~= f then
        carry = carry or wide()
        local spare, period, divisor = read('<ddd', blob, position + 52)
        if a < 4503599627370496 then
          at, first = carry(at, first, second, now, e, spare, period, divisor)
        else
          at = nil
        end
      end
      if at then
        at, first, second = at + a, first + b, f
        if first >= e then at, first = at + 1, first - e end
        local latest = now + c
        admitted = at < latest or (at == latest and first <= d)
      end
    elseif what == 2 then -- a fixed window: cost, count, period, calendar
      if now >= at then
        at, first = now + c, 0
        if d == 1 then at = at - math.fmod(now, c) end
      end
      first = first + a
      admitted = first <= b
    elseif what == 3 then -- a sliding window: cost, count, period, slice, slices
      local from = at - 2 * c
      if now >= at or (now >= from + c and second == 0) then
        from, first, second = now, 0, 0
      elseif now >= from + c then
        from, first, second = from + c, second, 0
      end
      local elapsed = floor(math.max(now - from, 0) / d)
      local free = b - second - a
      admitted = free >= 0 and first * (e - elapsed) <= free * e
      at, second = from + 2 * c, second + a
    elseif what > 3 then
      admitted = judge_list(what, k, position, start, steps)
    end
    replies = replies + 1
    reply[replies] = raw[k]
    if not admitted then
      refused = refused or flags % 2 == 0
    elseif what < 4 and flags < 2 then
      undo[#undo + 1] = { k, ats[k], firsts[k], seconds[k] }
      ats[k], firsts[k], seconds[k] = at, first, second
    end
    position = position + 76
  end
  local charged = op == 1 and not refused
  reply[verdict] = charged and 1 or 0
  if settle_lists then settle_lists(charged, reply, verdict, start, steps) end
  for i = #undo, 1, -1 do
    local k = undo[i][1]
    if charged then
      local at = ats[k]
      dirty[k] = dirty[k] or 'KEEPTTL'
      if lasts[k] < at / 1000 + 1 then
        lasts[k], dirty[k] = lives or floor(at / 1000 + (at - now) / 4000) + 1000, 'PXAT'
      end
      raw[k] = write('<dddd', at, firsts[k], seconds[k], lasts[k])
    else
      ats[k], firsts[k], seconds[k] = undo[i][2], undo[i][3], undo[i][4]
    end
  end
end

for k, life in pairs(dirty) do
  if life == 'PXAT' then
    call('SET', KEYS[k], raw[k], life, format('%d', lasts[k]))
  else
    call('SET', KEYS[k], raw[k], life)
  end
end
return reply
