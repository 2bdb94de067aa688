-- ARGV: base, the version before the first, how many at most.
local found = {}
for _, member in ipairs(redis.call('ZRANGEBYSCORE', base .. 'changes', '(' .. ARGV[2], '+inf', 'LIMIT', 0, ARGV[3])) do
  local colon = string.find(member, ':', 1, true)
  local class, key = string.sub(member, 1, colon - 1), string.sub(member, colon + 1)
  found[#found + 1] = class
  found[#found + 1] = key
  found[#found + 1] = redis.call('HGET', base .. 'rows:' .. class, key)
end
return found
