-- ARGV: base, class, whose or nothing, when they are in force or nothing, the number before the first, how many at most, and
-- which come first: the oldest or the newest.
-- Looks at no more than ten thousand at once: the first answer is where to go on, or nothing if there is no more.
local class, whom, at, cursor, most = ARGV[2], ARGV[3], ARGV[4], ARGV[5], tonumber(ARGV[6])
local order = base .. (whom == '' and 'number:' .. class or 'whom:' .. class .. ':' .. whom)
local newest = ARGV[7] == 'newest'
local by, to = newest and 'ZREVRANGEBYSCORE' or 'ZRANGEBYSCORE', newest and '-inf' or '+inf'
local found, seen = { '' }, 0
while true do
  local page = redis.call(by, order, '(' .. cursor, to, 'WITHSCORES', 'LIMIT', 0, 1000)
  for place = 1, #page, 2 do
    local key = page[place]
    local ends = at ~= '' and redis.call('ZSCORE', base .. 'until:' .. class, key)
    if at == '' or (ends and tonumber(ends) > tonumber(at)) then
      found[#found + 1] = class
      found[#found + 1] = key
      found[#found + 1] = redis.call('HGET', base .. 'rows:' .. class, key)
      most = most - 1
      if most == 0 then
        return found
      end
    end
    cursor = page[place + 1]
  end
  seen = seen + 1000
  if #page < 2000 then
    return found
  end
  if seen >= 10000 then
    found[1] = cursor
    return found
  end
end
