-- Takes back what a batch was charged, as far as it is still felt. Mirrors the transition of threshold-core.
--
-- KEYS     the key of each step
-- ARGV[1]  when it was charged, then each step as for judging, in 76 bytes
-- ARGV[2]  for tests: the time, and ARGV[3] until when all states live
local call, read, write = redis.call, struct.unpack, struct.pack
local blob, now, lives = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
if not now then
  now = call('TIME')
  now = now[1] * 1000000 + now[2]
end
local charged_at, position = read('<d', blob)
local gone = math.max(now - charged_at, 0)

local function keep(key, at, first, second)
  local last = lives or math.floor(at / 1000) + 2
  call('SET', key, write('<dddd', at, first, second, last), 'PXAT', string.format('%d', last))
end

local function refund_bucket(key, at, rest, mark)
  local price, fine, _, _, per, own, _, period, divisor = read('<ddddddddd', blob, position + 4)
  if mark ~= own then
    if at < now then return end
    local _, give_back = wide()
    local left = give_back(at, rest, mark, now, gone, price, fine, per, period, divisor)
    if not left then return call('DEL', key) end
    return keep(key, left, 0, mark)
  end
  if at < now then at, rest = now, 0 end
  if price < gone then return end
  at, rest = at - (price - gone), rest - fine
  if rest < 0 then at, rest = at - 1, rest + per end
  if at < now or (at == now and rest == 0) then return call('DEL', key) end
  return keep(key, at, rest, mark)
end

local function refund_fixed(key, at, used)
  local cost, _, period = read('<ddd', blob, position + 4)
  if now >= at or used == 0 or charged_at < at - period then return end
  if used <= cost then return call('DEL', key) end
  return keep(key, at, used - cost, 0)
end

local function refund_sliding(key, at, previous, current)
  local cost, _, period = read('<ddd', blob, position + 4)
  local start = at - 2 * period
  if now >= at or (now >= start + period and current == 0) then
    start, previous, current = now, 0, 0
  elseif now >= start + period then
    start, previous, current = start + period, current, 0
  end
  if charged_at >= start then
    current = math.max(current - cost, 0)
  elseif charged_at >= start - period then
    previous = math.max(previous - cost, 0)
  end
  if previous == 0 and current == 0 then return call('DEL', key) end
  return keep(key, start + 2 * period, previous, current)
end

local function refund_log(key)
  local cost = read('<d', blob, position + 4)
  local at = string.format('%.0f', charged_at)
  local member = call('ZRANGEBYSCORE', key, at, at)[1]
  if not member then return end
  local had = tonumber(string.match(member, ':(%d+)'))
  local left = math.max(had - cost, 0)
  call('ZREM', key, member)
  if left > 0 then call('ZADD', key, at, at .. ':' .. string.format('%.0f', left)) end
  if call('ZINCRBY', key, string.format('%.0f', had - left), 't') == '0' then call('DEL', key) end
end

for _, key in ipairs(KEYS) do
  local what = read('<B', blob, position)
  if what == 4 then
    refund_log(key)
  else
    local raw = call('GET', key)
    if raw then
      local at, first, second = read('<ddd', raw)
      if what == 1 then refund_bucket(key, at, first, second) end
      if what == 2 then refund_fixed(key, at, first) end
      if what == 3 then refund_sliding(key, at, first, second) end
    end
  end
  position = position + 76
end
return 1
