-- ARGV: base, whose, the number after the last, how many. The last first.
local found = {}
local whose = base .. 'whom:violation:' .. ARGV[2]
for _, key in ipairs(redis.call('ZREVRANGEBYSCORE', whose, '(' .. ARGV[3], '-inf', 'LIMIT', 0, ARGV[4])) do
  found[#found + 1] = 'violation'
  found[#found + 1] = key
  found[#found + 1] = redis.call('HGET', base .. 'rows:violation', key)
end
return found
