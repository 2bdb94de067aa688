-- Keeps what is known of the store as a whole: whose it is, since when, what may have been lost last, and which servers
-- have answered. It lives and is lost with the counters, so that it tells of them.
--
-- KEYS[1]  where it is kept
-- ARGV[1]  the fingerprint of the secret, ARGV[2] of the one before
-- ARGV[3]  since when it was kept as far as the caller knows; 0 if it does not
-- ARGV[4]  1 if a server loses nothing by a start
-- ARGV[5]  the most letters of the names of servers, where several have parts of the store; 0 where one has all of it
-- ARGV[6]  the servers that answer; nothing for this one
-- Returns  the time and what is kept: fingerprint, since when, when something may have been lost, and servers
local call, format = redis.call, string.format
local now = call('TIME')
now = now[1] * 1000000 + now[2]
local kept, most = call('GET', KEYS[1]) or '', tonumber(ARGV[5])
local whose, since, lost, servers = string.match(kept, '^(%x+):?(%d*):?(%d*):?(.*)$')
if kept ~= '' and whose ~= ARGV[1] and whose ~= ARGV[2] then
  return { now, kept }
end
since, lost, servers = tonumber(since) or now, tonumber(lost) or 0, servers or ''

local before, answering = servers, ARGV[6]
if answering == '' then
  answering = string.match(call('INFO', 'server'), 'run_id:(%w+)')
end
for server in string.gmatch(answering, '%w+') do
  if not string.find(before, server, 1, true) then
    -- One that has all of it stands alone: whoever was before it is a stranger when it comes back.
    servers = most > 0 and string.sub(servers .. ' ' .. server, -most) or server
    if before ~= '' and ARGV[4] ~= '1' then
      lost = now
    end
  end
end
local known = tonumber(ARGV[3])
if known > 0 and since > known then
  -- It is younger than somebody knows it to be: all of it was gone.
  lost = math.max(lost, since)
end

local new = format('%s:%.0f:%.0f:%s', ARGV[1], since, lost, servers)
if new ~= kept then
  call('SET', KEYS[1], new)
end
return { now, new }
